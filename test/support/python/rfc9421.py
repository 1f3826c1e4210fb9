"""Signs a request with http-message-signatures, as a program of Python would that has a key and knows nothing of ours.

In: {"method", "url", "headers": {...}, "d": the private key as a JWK has it, "keyid", "components": [...], "body"?}. Out: the header fields to add; with a
body also its digest, which the library makes and covers.
"""

import base64
import json
import sys
from types import SimpleNamespace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from http_message_signatures import HTTPMessageSigner, HTTPSignatureKeyResolver, algorithms
from http_message_signatures.structures import CaseInsensitiveDict

asked = json.load(sys.stdin)
key = Ed25519PrivateKey.from_private_bytes(base64.urlsafe_b64decode(asked["d"] + "="))


class OneKey(HTTPSignatureKeyResolver):
    def resolve_private_key(self, key_id):
        return key


request = SimpleNamespace(method=asked["method"], url=asked["url"], headers=CaseInsensitiveDict(asked["headers"]))
signer = HTTPMessageSigner(signature_algorithm=algorithms.ED25519, key_resolver=OneKey())
body = asked["body"].encode() if "body" in asked else None
signer.sign(request, key_id=asked["keyid"], covered_component_ids=asked["components"], body=body)
made = ("Signature-Input", "Signature", "Content-Digest")
print(json.dumps({name.lower(): request.headers[name] for name in made if name in request.headers}))
