# SPDX-License-Identifier: Apache-2.0
# Executed by known_chain.pl.
main::three();
1;
