# SPDX-License-Identifier: Apache-2.0
require "logger"
require "minitest/autorun"
require "socket"

# Passing tests whose subjects fail.
class ErrorsTest < Minitest::Test
  def test_error_is_raised_and_logged
    error = assert_raises(ZeroDivisionError) { 1 / 0 }
    Logger.new($stderr).error(error)
    puts error.full_message(highlight: false)
  end

  def test_connection_refused_is_retried
    3.times do |attempt|
      TCPSocket.new("127.0.0.1", 1)
    rescue Errno::ECONNREFUSED => error
      warn "attempt #{attempt + 1} failed: #{error.message}, retrying"
    end
  end

  def test_load_error
    error = assert_raises(LoadError) { require "no/such/library" }
    puts "LoadError: #{error.message}"
  end

  def test_skipped_failure
    skip "fails without a GPU"
  end
end
