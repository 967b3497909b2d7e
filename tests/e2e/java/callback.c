/* SPDX-License-Identifier: Apache-2.0 */
/* The native method KnownChain.callBack(), which calls back into Java. */
#include <jni.h>

JNIEXPORT jlong JNICALL Java_KnownChain_callBack(JNIEnv *env, jclass class, jlong n)
{
	const jmethodID method = (*env)->GetStaticMethodID(env, class, "calledBack", "(J)J");

	return (*env)->CallStaticLongMethod(env, class, method, n) + 1;
}
