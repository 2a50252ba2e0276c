// SPDX-License-Identifier: Apache-2.0
import java.io.IOException;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.logging.Level;
import java.util.logging.Logger;

/** Logs the stack traces of failed attempts, and ends with 0. */
public class Retry {
    private static final Logger LOG = Logger.getLogger("retry");

    static void connect() throws IOException {
        try (Socket socket = new Socket("127.0.0.1", 1)) {
            LOG.info("connected " + socket);
        }
    }

    @SuppressWarnings("fallthrough")
    public static void main(String[] words) {
        List raw = new ArrayList();
        raw.add("an unchecked call");
        for (int attempt = 1; attempt <= 3; attempt++) {
            try {
                connect();
            } catch (IOException error) {
                LOG.log(Level.WARNING, "attempt " + attempt + " failed", new IllegalStateException("not ready", error));
            }
        }
        try {
            Object[] list = new Object[1];
            list[2].toString();
        } catch (RuntimeException error) {
            LOG.log(Level.SEVERE, "ignored", error);
        }
        System.out.println("BUILD SUCCESSFUL, 0 errors, 3 failed attempts");
    }
}
