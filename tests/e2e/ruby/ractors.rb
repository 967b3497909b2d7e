# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0
# Three ractors that work at the same time, for SECONDS: ractors.rb SECONDS. Each has an execution context of its own.
Warning[:experimental] = false
def leaf
  x = 0
  i = 0
  while i < 10_000
    x += i % 7
    i += 1
  end
  x
end

def inner
  leaf + 1
end

puts "started"
$stdout.flush
working = Array.new(3) do
  Ractor.new(Float(ARGV[0])) do |seconds|
    stop = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
    while Process.clock_gettime(Process::CLOCK_MONOTONIC) < stop
      [1].each { |_| inner }
    end
  end
end
sleep if working.size == 3
