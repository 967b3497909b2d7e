# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0
# A site of Sinatra: a page by a template, and a list as JSON. If the environment has TOLD, what caller_locations says at each call of a Ruby method and of a
# block, and of a method written in C, is written to that file, each once, in the form of known_chain.rb.
require "sinatra/base"
require "json"

class Teller
  def initialize(app)
    @app = app
    @out = ENV["TOLD"] && File.open(ENV["TOLD"], "a")
    @told = {}
  end

  def call(env)
    trace&.enable
    @app.call(env)
  ensure
    trace&.disable
  end

  private

  def trace
    return unless @out

    @trace ||= TracePoint.new(:call, :b_call, :c_call) { |point| tell(point.event, caller_locations(1)) }
  end

  def tell(event, chain)
    text = chain.map { |l| "\t#{l.path}\t#{l.lineno}\t#{l.label}\n" }.join
    return if @told[[event == :c_call, text]]

    @told[[event == :c_call, text]] = true
    @out.write("#{event}\n#{text}")
    @out.flush
  end
end

class Site < Sinatra::Base
  use Teller
  set :environment, :production
  set :protection, true

  Item = Struct.new(:name, :price, :tags) do
    def expensive?
      price > 40
    end

    def <=>(other)
      price <=> other.price
    end
    include Comparable
  end

  helpers do
    def link(tag)
      "<a href=\"/tags/#{Rack::Utils.escape(tag)}\">#{Rack::Utils.escape_html(tag.capitalize)}</a>"
    end

    def items(count)
      (1..count).map { |i| Item.new("item #{i}", i * 7 % 61, %w[alpha beta gamma].map { |tag| "#{tag} & #{i % 3}" }) }
    end
  end

  template(:layout) { "<html><title><%= @title %></title><%= yield %></html>" }
  template(:page) do
    "<% @items.sort.group_by(&:expensive?).each do |expensive, items| %><h1><%= expensive %></h1>" \
      "<% items.each_with_index do |item, i| %><p class=\"<%= i.odd? ? 'odd' : 'even' %>\"><%= item.name %>: <%= item.tags.map { |t| link(t) }.join(', ') %></p>" \
      "<% end %><% end %>"
  end

  before { @title = "all items" }

  get "/page" do
    @items = items(120)
    erb :page
  end

  get "/list" do
    content_type :json
    JSON.generate(items(150).map { |item| item.to_h.merge(sum: item.tags.sum { |t| t.scan(/[a-z]/).size }) }.select { |i| JSON.parse(JSON.generate(i))["price"].positive? })
  end
end

run Site
