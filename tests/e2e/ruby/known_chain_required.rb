# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0
# Is required by known_chain.rb.
def required; spin; end
required
