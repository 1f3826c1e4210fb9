"""Reads signed documents with four libraries that are not ours, as whoever receives them would: a JWKS in, a JWS in, the payload out.

In: {"library": name, "jwks": {...}, "jws": "...", "typ": "..."}. Out: {"header": {...}, "payload": {...}} or {"error": "..."}.
No algorithm is told to a library but by the name that it has for Ed25519, and by the `alg` of the key.
"""

import json
import sys


def pyjwt(jwks, jws):
    import jwt

    header = jwt.get_unverified_header(jws)
    key = jwt.PyJWKSet.from_dict(jwks)[header["kid"]]
    options = {"verify_aud": False}
    return header, jwt.decode(jws, key, algorithms=["EdDSA"], options=options)


def authlib(jwks, jws):
    from authlib.jose import JsonWebKey, JsonWebToken

    claims = JsonWebToken(["EdDSA"]).decode(jws, JsonWebKey.import_key_set(jwks))
    claims.validate()
    return claims.header, dict(claims)


def jwcrypto(jwks, jws):
    from jwcrypto.jwk import JWKSet
    from jwcrypto.jws import JWS

    document = JWS()
    document.deserialize(jws)
    header = document.jose_header
    document.verify(JWKSet.from_json(json.dumps(jwks)).get_key(header["kid"]))
    return header, json.loads(document.payload)


def joserfc(jwks, jws):
    from joserfc import jwt
    from joserfc.jwk import KeySet

    token = jwt.decode(jws, KeySet.import_key_set(jwks), algorithms=["EdDSA"])
    return token.header, token.claims


LIBRARIES = {"PyJWT": pyjwt, "authlib": authlib, "jwcrypto": jwcrypto, "joserfc": joserfc}


def main():
    asked = json.load(sys.stdin)
    try:
        header, payload = LIBRARIES[asked["library"]](asked["jwks"], asked["jws"])
        answer = {"header": header, "payload": payload}
    except Exception as error:  # each library has errors of its own; whatever it is, the test shows it
        answer = {"error": f"{type(error).__name__}: {error}"}
    json.dump(answer, sys.stdout)


main()
