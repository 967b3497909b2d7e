# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0
# Stays in spin, which was called through many kinds of calls: kinds.rb [DEPTH] [collect].
def spin
  n = 0
  loop_until = 1 << 40
  i = 0
  while i < loop_until
    n += i * i % 7
    i += 1
  end
  n
end

def collect
  a = Array.new(100_000) { "x" * 30 }
  GC.start while a
end

def recurse(n)
  return recurse(n - 1) if n.positive?

  ARGV[1] ? collect : spin
end

recurse(ARGV[0].to_i) if ARGV[0]

module Helper
  def help
    return 1
  ensure
    spin
  end
end

class Shape
  include Comparable

  def <=>(_)
    Class.new { include Helper }.new.help
  end

  def self.compare
    new < new
  end

  class << self
    def made; [1].each { |_| compare }; end
  end

  define_method(:defined) { |x = 1| self.class.made + [x] }

  def to_s
    defined.to_s
  end
end

module Loud
  refine String do
    def loud; "#{Shape.new}"; end
  end
end
using Loud

class Key
  def hash; "x".loud.hash; end
end

def rescued
  raise "x"
rescue StandardError
  { Key.new => 1 }
end

Fiber.new { eval("[2, 1].sort { |_, _| rescued }", binding, "evaluated.rb", 10) }.resume
