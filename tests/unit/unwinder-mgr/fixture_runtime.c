/* SPDX-License-Identifier: Apache-2.0 */
/* Files that define or use the symbols of CPython, for test_runtime_check.c. They are never run. */
extern int PyCode_Type, _PyEval_EvalFrameDefault;
int _start(void);

#ifdef DEFINE_TYPE
int PyCode_Type = 1;
#endif
#ifdef DEFINE_EVALUATOR
int _PyEval_EvalFrameDefault = 1;
#endif

int _start(void)
{
	return PyCode_Type + _PyEval_EvalFrameDefault;
}
