# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0
# Calls spin through known chains, for SECONDS: known_chain.rb SECONDS FILE.
# FILE: for each part a line "PART" and then what caller_locations says in spin, a line "FILE LINE LABEL" for each call,
# innermost first. In place of a label "> NAME" is what is to be shown for the call, if the part says so.

SECONDS = Float(ARGV[0])
OUT = File.open(ARGV[1], "w")
SPIN_FOR = 0.01
PARTS = {}
TOLD = {}
$part = nil

def spin
  unless TOLD[$part]
    TOLD[$part] = true
    OUT.puts($part, caller_locations(1).map { |l| "\t#{l.path}\t#{l.lineno}\t#{l.label}" })
    OUT.flush
  end
  stop = Process.clock_gettime(Process::CLOCK_MONOTONIC) + SPIN_FOR
  n = 0
  while Process.clock_gettime(Process::CLOCK_MONOTONIC) < stop
    i = 0
    while i < 300
      n += i * i % 7; i += 1
    end
  end
  1
end

def part(name, &code); PARTS[name] = code; end

def three; spin; end
def two
  r = three
  r
end

def one; two + 1; end
part("plain") { one }

def recurse(n)
  n.zero? ? spin : recurse(n - 1)
end
part("depth 20") { recurse(20) }
part("depth 300") { recurse(300) }

class Shape
  attr_reader :side

  def initialize(side)
    @side = side
    spin if side == 7
  end

  def area; spin * side; end

  def self.unit
    new(1).area
  end

  class << self
    def square
      new(2).area
    end
  end

  def method_missing(name, *)
    name == :ghost ? spin : super
  end

  def respond_to_missing?(*); true; end

  def to_s
    spin
    "shape"
  end

  def <=>(other)
    spin
    side <=> other.side
  end
  include Comparable

  define_method(:defined) { |x = 1| spin + x }

  def each
    yield spin
  end
  include Enumerable
end

class Square < Shape
  def area; super**2; end
end

module Outer
  module Helper
    def help; spin; end
    module_function :help
  end

  class Inner
    include Helper
    def run; help; end
  end
end

module Loud
  refine String do
    def loud; spin; end
  end
end
using Loud

part("method") { Shape.new(3).area }
part("super") { Square.new(3).area }
part("singleton method") { Shape.unit }
part("class << self") { Shape.square }
part("initialize") { Shape.new(7) }
part("method_missing") { Shape.new(3).ghost }
part("to_s in a string") { "#{Shape.new(3)}" }
part("comparison") { Shape.new(3) < Shape.new(4) }
part("define_method") { Shape.new(3).defined }
part("enumerable") { Shape.new(3).map { |x| x } }
part("module") { Outer::Inner.new.run }
part("module function") { Outer::Helper.help }
part("refinement") { "x".loud }
part("send") { Shape.new(3).send(:area) }
part("public_send") { Shape.new(3).public_send(:area) }
part("method object") { Shape.new(3).method(:area).call }
part("instance_method") { Shape.instance_method(:area).bind(Shape.new(3)).call }

part("singleton of an object") do
  object = Object.new
  def object.alone; spin; end
  object.alone
end
part("anonymous class") do
  Class.new { def hidden; spin; end }.new.hidden
end
part("class body") do
  Object.send(:remove_const, :Body) if Object.const_defined?(:Body)
  eval("class Body; spin; end")
end

part("block") { [1].each { |_| spin } }
part("nested blocks") { [1].each { |_| 1.times { |_| { a: 1 }.each { |_, _| spin } } } }
part("each_with_index") { [1].each_with_index { |_, _| spin } }
part("map") { [1].map { |_| spin } }
part("map by symbol") { [Shape.new(3)].map(&:area) }
part("inject") { [1, 2].inject { |_, _| spin } }
part("sort") { [2, 1].sort { |a, b| spin; a <=> b } }
part("sort_by") { [2, 1].sort_by { |a| spin; a } }
part("hash with a block") { Hash.new { |_, _| spin }[1] }
part("gsub") { "a".gsub(/a/) { spin.to_s } }
part("loop") { loop { spin; break } }
part("times") { 1.times { spin } }
part("step") { 1.step(1) { |_| spin } }
part("proc") { proc { spin }.call }
part("lambda") { ->(x) { spin + x }.(1) }
part("yield") do
  def yielder; yield + 1; end
  yielder { spin }
end
part("instance_eval") { Shape.new(3).instance_eval { spin } }
part("instance_exec") { Shape.new(3).instance_exec(1) { |_| spin } }
part("class_eval") { Shape.class_eval { spin } }
part("tap") { 1.tap { spin } }
part("then") { 1.then { spin } }
part("catch") { catch(:x) { spin; throw :x } }
part("ensure") do
  def ensured
    1
  ensure
    spin
  end
  ensured
end
part("rescue") do
  def rescued
    raise "x"
  rescue StandardError
    spin
  end
  rescued
end
part("after an exception") do
  def raises
    [1].each { |_| raise "x" }
  end

  def survives
    begin
      raises
    rescue StandardError
      nil
    end
    spin
  end
  survives
end
part("break of a block") do
  def breaks
    [1, 2].each { |_| break }
    spin
  end
  breaks
end
part("eval") { eval("spin") }
part("eval with a file") { eval("\n\nspin", binding, "evaluated.rb", 10) }
part("enumerator") { [1].each.with_index.to_a.each { |_| spin } }
part("enumerator with next") do
  e = Enumerator.new { |y| y << spin }
  e.next
end
part("lazy") { (1..2).lazy.map { |_| spin }.first(1) }
part("fiber") do
  def in_fiber; spin; end
  Fiber.new { in_fiber }.resume
end
part("fiber that yields") do
  f = Fiber.new { Fiber.yield; in_fiber }
  f.resume
  f.resume
end
part("thread") do
  def in_thread; spin; end
  Thread.new { in_thread }.join
end
part("at_exit of a pipe") { IO.popen(["true"]) { |_| spin } }
part("trace") do
  trace = TracePoint.new(:call) { |t| spin if t.method_id == :traced }
  def traced; 1; end
  trace.enable { traced }
end
part("const_missing") do
  class Shape
    def self.const_missing(_); spin; end
  end
  Shape::Missing
end
part("coerce") do
  class Shape
    def coerce(other)
      spin
      [other, 1]
    end
  end
  1 + Shape.new(3)
end
part("hash and eql?") do
  class Key
    def hash; spin; end
    def eql?(_); true; end
  end
  { Key.new => 1 }
end
part("inherited") do
  class Shape
    def self.inherited(_); spin; end
  end
  Class.new(Shape)
end
part("marshal") do
  class Dumped
    def marshal_dump; spin; end
    def marshal_load(_); nil; end
  end
  Marshal.dump(Dumped.new)
end
part("require") do
  $LOADED_FEATURES.delete_if { |f| f.end_with?("known_chain_required.rb") }
  require_relative "known_chain_required"
end

puts "started"
$stdout.flush
stop = Process.clock_gettime(Process::CLOCK_MONOTONIC) + SECONDS
until Process.clock_gettime(Process::CLOCK_MONOTONIC) > stop
  PARTS.each do |name, code|
    $part = name
    code.call
  end
  unless OUT.closed?
    OUT.close
    File.rename(ARGV[1], "#{ARGV[1]}.all")
  end
end
