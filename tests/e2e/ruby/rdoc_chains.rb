# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0
# Makes the documentation of the standard library, by RDoc, again and again: rdoc_chains.rb DIRECTORY FILE. Some of RDoc's methods spin for some
# milliseconds in each 20th call. FILE gets what caller_locations says there, in the form of known_chain.rb.
require "rdoc"

OUT = File.open(ARGV[1], "w")
TOLD = {}
SPIN_FOR = 0.004

module Probe
  def self.spin
    chain = caller_locations(1).map { |l| "\t#{l.path}\t#{l.lineno}\t#{l.label}" }
    unless TOLD[chain]
      TOLD[chain] = true
      OUT.puts("chain #{TOLD.size}", chain)
      OUT.flush
    end
    stop = Process.clock_gettime(Process::CLOCK_MONOTONIC) + SPIN_FOR
    i = 0
    i += 1 while i % 300 != 0 || Process.clock_gettime(Process::CLOCK_MONOTONIC) < stop || i.zero?
  end

  def self.watch(owner, *methods)
    calls = 0
    owner.prepend(Module.new do
      methods.each do |method|
        define_method(method) do |*arguments, **options, &block|
          Probe.spin if ((calls += 1) % 20).zero?
          super(*arguments, **options, &block)
        end
      end
    end)
  end
end

Probe.watch(RDoc::Context, :add_method, :add_constant, :add_attribute, :add_class)
Probe.watch(RDoc::Comment, :parse, :normalize)
Probe.watch(RDoc::AnyMethod, :params=, :name=)
Probe.watch(RDoc::Markup::ToHtml, :accept_paragraph, :accept_verbatim, :accept_list_start, :handle_special_CROSSREF)
Probe.watch(RDoc::Markup::Parser, :build_paragraph, :get, :peek_token)
Probe.watch(RDoc::Markup::AttributeManager, :flow, :convert_attrs)
Probe.watch(RDoc::TokenStream, :token_stream)

puts "started"
$stdout.flush
library = File.dirname($LOADED_FEATURES.find { |path| path.end_with?("/rdoc.rb") })
files = Dir[File.join(library, "*.rb")].sort
loop do
  files.each_slice(8) do |part|
    RDoc::RDoc.new.document(["--quiet", "--force-output", "--op", ARGV[0], *part])
  end
end
