#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Record all cases of PHP again: add_all.sh NAME=PHP...
#   add_all.sh 8.2-system=/usr/bin/php8.2
# Needed after a change of what the walker or the symbolizer reads. PHP_OPTIONS: options of php, such as those that start the JIT compiler.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
read -r -a options <<<"${PHP_OPTIONS:-}"

for each in "$@"; do
	name=${each%%=*}
	php=${each#*=}
	"$here/../add_case.sh" "php/$name-kinds" --wait-for "php spin" -- "$php" "${options[@]}" kinds.php
	"$here/../add_case.sh" "php/$name-deep" --wait-for "php spin" -- "$php" "${options[@]}" kinds.php 300
	"$here/../add_case.sh" "php/$name-expression" --wait-for "php search" --wait-for "memory" -- "$php" "${options[@]}" expression.php
done
