# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0
# Twenty levels, each calling the next; the last one calculates. The program and spin are two of them.

def spin
  stop = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 0.005
  while Process.clock_gettime(Process::CLOCK_MONOTONIC) < stop
    n = 0
    i = 0
    while i < 1000
      n += i * i
      i += 1
    end
  end
end

below = "spin"
(1..18).each do |level|
  eval("def level_#{level} = (#{below}; 0)", TOPLEVEL_BINDING, "levels.rb")
  below = "level_#{level}"
end
puts "{}"
$stdout.flush
level_18 while true
