/* SPDX-License-Identifier: Apache-2.0 */
#include "exporter/delivery/transport_pem.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdbool.h>

#include "common/cleanup.h"

static void free_bio(BIO **bio)
{
	BIO_free(*bio);
}

static void free_certificate(X509 **certificate)
{
	X509_free(*certificate);
}

static void free_key(EVP_PKEY **key)
{
	EVP_PKEY_free(*key);
}

/* Returns 0 or -EINVAL. OpenSSL's error queue belongs to the thread; it is emptied, so that no
 * later caller finds these errors. */
static int result(bool good)
{
	ERR_clear_error();
	return good ? 0 : -EINVAL;
}

int transport_pem_check_certificates(const char *pem)
{
	_cleanup_(free_bio) BIO *bio = BIO_new_mem_buf(pem, -1);
	unsigned int count = 0;
	X509 *certificate;

	while (bio && (certificate = PEM_read_bio_X509(bio, NULL, NULL, (void *)""))) {
		X509_free(certificate);
		count++;
	}
	/* The end of the text is reported as an error, too: there is no further line that starts a
	 * certificate. */
	return result(count && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE);
}

int transport_pem_check_key(const char *certificate, const char *key)
{
	_cleanup_(free_bio) BIO *certificate_bio = BIO_new_mem_buf(certificate, -1);
	_cleanup_(free_bio) BIO *key_bio = BIO_new_mem_buf(key, -1);
	_cleanup_(free_certificate) X509 *x509 = NULL;
	_cleanup_(free_key) EVP_PKEY *pkey = NULL;

	/* An explicit empty password: without it OpenSSL asks on the terminal. */
	if (certificate_bio && key_bio) {
		x509 = PEM_read_bio_X509(certificate_bio, NULL, NULL, (void *)"");
		pkey = PEM_read_bio_PrivateKey(key_bio, NULL, NULL, (void *)"");
	}
	return result(x509 && pkey && X509_check_private_key(x509, pkey) == 1);
}
