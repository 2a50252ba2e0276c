// SPDX-License-Identifier: Apache-2.0

// Package errors holds passing tests whose subjects fail.
package errors

import (
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/debug"
	"testing"
)

func TestRefusedConnectionIsRetried(t *testing.T) {
	for attempt := 1; attempt <= 3; attempt++ {
		_, err := net.Dial("tcp", "127.0.0.1:1")
		if err == nil {
			t.Fatal("somebody listens on port 1")
		}
		t.Logf("attempt %d failed: %v", attempt, err)
	}
}

func TestPanicIsRecovered(t *testing.T) {
	defer func() {
		reason := recover()
		log.Printf("panic: %v [recovered]\n%s", reason, debug.Stack())
	}()
	var list []int
	_ = list[len(os.Args)+100]
}

func TestServerLogsPanicOfHandler(t *testing.T) {
	handler := func(http.ResponseWriter, *http.Request) { panic("runtime error: invalid memory address") }
	server := httptest.NewServer(http.HandlerFunc(handler))
	defer server.Close()
	_, err := http.Get(server.URL)
	if err == nil {
		t.Error("the client saw no error")
	}
	t.Log("FATAL: client error as expected:", err)
}

func TestSkippedWithoutGPU(t *testing.T) {
	t.Skip("CUDA error: no device")
}

func TestTable(t *testing.T) {
	for _, name := range []string{"error_empty", "fail_on_timeout", "FAIL"} {
		t.Run(name, func(t *testing.T) { t.Log("--- FAIL: is only text") })
	}
}
