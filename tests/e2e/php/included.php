<?php
// SPDX-License-Identifier: Apache-2.0
// Included by known_chain.php.
return three();
