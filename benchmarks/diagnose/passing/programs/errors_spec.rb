# SPDX-License-Identifier: Apache-2.0
RSpec.describe "errors" do
  it "raises NoMethodError for nil" do
    expect { nil.missing }.to raise_error(NoMethodError)
    puts "NoMethodError: undefined method `missing' for nil:NilClass"
  end

  it "is not written yet"

  pending "fails as known: Failure/Error" do
    expect(1 + 1).to eq(3)
  end

  it "prints the backtrace of a rescued error" do
    raise ArgumentError, "wrong number of arguments"
  rescue ArgumentError => error
    puts error.full_message
  end

  xit "fails on other machines" do
    raise "never"
  end
end
