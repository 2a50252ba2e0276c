// SPDX-License-Identifier: Apache-2.0
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import org.junit.jupiter.api.Disabled;
import org.junit.jupiter.api.Test;

class RetryTest {
    @Test
    void refusedConnectionIsAnError() {
        IOException error = assertThrows(IOException.class, Retry::connect);
        error.printStackTrace();
        System.out.println("[ERROR] BUILD FAILURE is only text here");
    }

    @Test
    void nullPointerExceptionIsIgnored() {
        RuntimeException error = assertThrows(NullPointerException.class, () -> ((Object) null).toString());
        new IllegalStateException("worker failed", error).printStackTrace();
    }

    @Test
    @Disabled("fails without a GPU")
    void gpu() {
        throw new AssertionError();
    }

    @Test
    void mainEndsWell() {
        Retry.main(new String[0]);
    }
}
