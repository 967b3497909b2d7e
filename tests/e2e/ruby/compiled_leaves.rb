# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0
# Calls methods that YJIT compiles and that call none themselves, for SECONDS: compiled_leaves.rb SECONDS. Their frames are at the same place
# of the stack. Says on standard error how many bytes of code YJIT has made before it starts.
def one(n)
  x = 0
  i = 0
  while i < n
    x += i
    i += 1
  end
  x
end
def two(n)
  x = 1
  i = 0
  while i < n
    x = (x & 0xffff) - i * 3
    i += 1
  end
  x
end

def both(n)
  one(n) + two(n)
end

100.times { both(10) }
warn RubyVM::YJIT.enabled? ? RubyVM::YJIT.runtime_stats[:inline_code_size] : RubyVM::ZJIT.stats[:code_region_bytes]
puts "started"
$stdout.flush
stop = Process.clock_gettime(Process::CLOCK_MONOTONIC) + Float(ARGV[0])
while Process.clock_gettime(Process::CLOCK_MONOTONIC) < stop
  100.times { both(100) }
end
