<?php
// SPDX-License-Identifier: Apache-2.0
use PHPUnit\Framework\TestCase;

final class ErrorsTest extends TestCase
{
    public function testErrorIsThrownAndLogged(): void
    {
        try {
            intdiv(1, 0);
            $this->fail('nothing was thrown');
        } catch (DivisionByZeroError $error) {
            fwrite(STDERR, "PHP Fatal error:  Uncaught $error\n");
            $this->assertStringContainsString('zero', $error->getMessage());
        }
    }

    public function testExceptionExpected(): void
    {
        $this->expectException(RuntimeException::class);
        throw new RuntimeException('Connection refused');
    }

    public function testIncompleteFailure(): void
    {
        $this->markTestIncomplete('fails: not implemented');
    }

    public function testSkippedFailure(): void
    {
        $this->markTestSkipped('Error: no GPU');
    }
}
