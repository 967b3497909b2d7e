/* SPDX-License-Identifier: Apache-2.0 */
/* A program with the interface of GDB for JIT compilers. */
int __jit_debug_descriptor = 1;
void __jit_debug_register_code(void);

void __jit_debug_register_code(void)
{
}

int main(void)
{
	return __jit_debug_descriptor;
}
