/* SPDX-License-Identifier: Apache-2.0 */
/* KnownChain.callBack(): from Java to here and back. */
#include <jni.h>

JNIEXPORT jlong JNICALL Java_KnownChain_callBack(JNIEnv *env, jclass class, jlong n)
{
	const jmethodID method = (*env)->GetStaticMethodID(env, class, "calledBack", "(J)J");

	return (*env)->CallStaticLongMethod(env, class, method, n) + 1;
}
