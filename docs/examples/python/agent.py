"""Calls a tool that somebody owns, on her terms, by the official MCP client: `python agent.py <resource> <tool> [<arguments as JSON>]`.

`OwnedTools` is an auth flow of httpx: a call that is challenged (401 `UMA`) is negotiated about, once, and sent again with the grant and an
RFC 9421 signature. It accepts the terms that `accepts` accepts, and keeps its standing grants in memory. Install `mcp` (2.x) and
`cryptography`. AGENT_KEY names the file of its key, made if there is none; without it each start is a new agent, which the owner does not
know. UMA_DEV_LOOPBACK=true admits http.
"""

import asyncio
import base64
import hashlib
import json
import os
import re
import sys
import time

import httpx2 as httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

AGREEMENT_FORMAT = "https://u4a.ai/spec/terms/1.0#myterms-agreement-v1+jws"
UMA_GRANT = "urn:ietf:params:oauth:grant-type:uma-ticket"
WAIT_SECONDS_MAX = 600
# Where a tool's question is answered with the call, the answers are parameters of it, too.
FURTHER_INPUT = {"inputResponses": "usher/inputResponses", "requestState": "usher/requestState"}


def b64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Refused(Exception):
    """The owner, a rule of hers, or a check of ours said no."""


class Undecided(Exception):
    """Nobody said no: somebody cannot be reached, or the owner still thinks. Try again later."""


class OwnedTools(httpx.Auth):
    """Negotiates and signs the calls of tools at one resource; everything else is sent as it is."""

    def __init__(self, resource: str, key: Ed25519PrivateKey, accepts, reason: str | None = None):
        self.resource, self.key, self.accepts, self.reason = httpx.URL(resource), key, accepts, reason
        x = b64url(key.public_key().public_bytes_raw())
        self.jwk = {"crv": "Ed25519", "kty": "OKP", "x": x}
        self.thumbprint = b64url(hashlib.sha256(json.dumps(self.jwk, sort_keys=True, separators=(",", ":")).encode()).digest())
        self.grants: dict[str, tuple[str, float]] = {}

    async def async_auth_flow(self, request):
        call = self.call_in(request)
        if call is None:
            yield request
            return
        tool = call["name"]
        grant, until = self.grants.get(tool, (None, 0))
        if grant and until > time.time() + 5:
            self.prove(request, grant)
        response = yield request
        if response.status_code != 401:
            return
        self.grants.pop(tool, None)
        answer = None
        flow = self.negotiate(response, call)
        while True:
            try:
                asked = flow.send(answer)
            except StopIteration as done:
                answer = done.value
                break
            if isinstance(asked, float):
                answer = await asyncio.sleep(asked)
            else:
                answer = yield asked
                await answer.aread()
        if not answer["single_use"]:
            self.grants[tool] = (answer["token"], time.time() + answer["expires_in"])
        self.prove(request, answer["token"])
        yield request

    def call_in(self, request) -> dict | None:
        if request.method != "POST" or request.url != self.resource:
            return None
        message = json.loads(request.read())
        is_call = isinstance(message, dict) and message.get("method") == "tools/call"
        return message["params"] if is_call else None

    def negotiate(self, response, call):
        """Beats 1 to 4. Yields requests and seconds to wait; returns the grant."""
        scheme, _, rest = response.headers.get("www-authenticate", "").partition(" ")
        if scheme != "UMA":
            raise Refused("a 401 that is no challenge")
        challenge = dict(re.findall(r'(\w+)="([^"]*)"', rest))
        issuer, ticket = challenge.get("as_uri"), challenge.get("ticket")
        # Trust comes from the resource that was called, never from the address that its challenge points to.
        url = self.resource
        metadata = document((yield get(url.copy_with(raw_path=b"/.well-known/oauth-protected-resource" + url.raw_path))))
        if metadata.get("resource") != str(url) or issuer not in metadata.get("authorization_servers", []):
            raise Refused(f"{url} does not name {issuer} as its authority")
        published = document((yield get(httpx.URL(issuer + "/.well-known/agents-configuration"))))
        if published.get("issuer") != issuer:
            raise Refused(f"{issuer} calls itself {published.get('issuer')}")
        form, template, until = {"ticket": ticket}, None, time.time() + WAIT_SECONDS_MAX
        while True:
            form["grant_type"] = UMA_GRANT
            answered = yield httpx.Request("POST", checked(published["token_endpoint"]), data=form)
            body = json_object(answered)
            if answered.status_code == 200:
                if template is None or body["token_type"] != "PoP":
                    raise Refused("a grant that nobody asked for")
                single_use = template.get("per_operation") is True
                return {"token": body["access_token"], "expires_in": body["expires_in"], "single_use": single_use}
            form = {"ticket": body.get("ticket")}
            if body.get("error") == "need_info":
                template = body["required_claims"][0]["terms_template"]
                if template["proffered_by"] != issuer:
                    raise Refused("terms of somebody else")
                if self.accepts(template):
                    form |= {"claim_token": self.agreement(template, issuer, call), "claim_token_format": AGREEMENT_FORMAT}
                else:
                    form["decline"] = "true"
            elif body.get("error") == "request_submitted":
                if time.time() > until:
                    raise Undecided("the owner has not decided yet; a later call joins what she was asked")
                yield float(body["interval"])
            elif body.get("error") in (None, "temporarily_unavailable"):
                raise Undecided(f"{issuer} answered {answered.status_code}: {body.get('error_description')}")
            else:
                raise Refused(f"{body.get('error')}: {body.get('error_description')}")

    def agreement(self, template: dict, issuer: str, call: dict) -> str:
        claims = {"iss": f"agent:{self.thumbprint}", "aud": issuer, "iat": int(time.time()), **template}
        if self.reason:
            claims["reason"] = self.reason
        if template.get("per_operation"):
            claims["operation"] = {"tool": call["name"], "params": parameters(call)}
        header = {"alg": "EdDSA", "typ": "myterms-agreement-v1+jws", "jwk": self.jwk}
        signed = ".".join(b64url(json.dumps(part).encode()) for part in (header, claims))
        return b64url(f"{signed}.{b64url(self.key.sign(signed.encode()))}".encode())

    def prove(self, request, grant: str) -> None:
        """RFC 9421 over the profile's components and the digest of the body."""
        digest = base64.b64encode(hashlib.sha256(request.content).digest()).decode()
        fields = {"authorization": f"PoP {grant}", "content-digest": f"sha-256=:{digest}:"}
        values = {"@method": "POST", "@authority": self.resource.netloc.decode(), "@path": self.resource.path, **fields}
        names = " ".join(f'"{name}"' for name in values)
        parameters = f'({names});created={int(time.time())};keyid="{self.thumbprint}"'
        base = "\n".join([*(f'"{name}": {value}' for name, value in values.items()), f'"@signature-params": {parameters}'])
        request.headers.update(fields)
        request.headers["signature-input"] = f"sig1={parameters}"
        request.headers["signature"] = f"sig1=:{base64.b64encode(self.key.sign(base.encode())).decode()}:"


def parameters(call: dict) -> dict:
    """What the owner approves of a call; no arguments are {}. What it has besides (`_meta`) is none of it."""
    further = {name: call[member] for member, name in FURTHER_INPUT.items() if member in call}
    return {**call.get("arguments", {}), **further}


def json_object(response) -> dict:
    """A page that a proxy puts in the place of an answer is no word of whoever was asked."""
    try:
        body = json.loads(response.content)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise Undecided(f"{response.request.url} answered {response.status_code} and no JSON object")
    return body


def document(response) -> dict:
    if response.status_code != 200:
        raise Undecided(f"{response.request.url} answered {response.status_code}")
    return json_object(response)


def get(url):
    return httpx.Request("GET", checked(url), headers={"accept": "application/json"})


def checked(address):
    url = httpx.URL(address)
    if url.scheme != "https" and not (os.environ.get("UMA_DEV_LOOPBACK") == "true" and url.host in ("127.0.0.1", "::1")):
        raise Refused(f"{url} is not https")
    return url


def own_key() -> Ed25519PrivateKey:
    """The agent is this key: whoever has it may use what the owner granted."""
    path = os.environ.get("AGENT_KEY")
    if path is None:
        return Ed25519PrivateKey.generate()
    try:
        with open(path, "rb") as file:
            return Ed25519PrivateKey.from_private_bytes(file.read())
    except FileNotFoundError:
        key = Ed25519PrivateKey.generate()
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(key.private_bytes_raw())
        return key


async def main() -> None:
    resource, tool, *rest = sys.argv[1:]
    arguments = json.loads(rest[0]) if rest else {}

    def accepts(template: dict) -> bool:
        print("terms:", ascii({name: template[name] for name in ("purpose", "scope", "prohibited")}), file=sys.stderr)
        return True

    auth = OwnedTools(resource, own_key(), accepts, reason="Try the example")
    async with httpx.AsyncClient(auth=auth, timeout=WAIT_SECONDS_MAX) as http:
        async with Client(streamable_http_client(resource, http_client=http)) as client:
            result = await client.call_tool(tool, arguments)
            print(json.dumps([part.text for part in result.content if part.type == "text"]))


def leaves(error) -> list:
    return [leaf for one in error.exceptions for leaf in leaves(one)] if isinstance(error, BaseExceptionGroup) else [error]


if __name__ == "__main__":
    errors, code = [], 0
    try:
        asyncio.run(main())
    except* Refused as group:
        errors, code = leaves(group), 1
    except* (Undecided, httpx.TransportError) as group:
        errors, code = leaves(group), 3
    for error in errors:
        print(f"{type(error).__name__}: {ascii(str(error))}", file=sys.stderr)
    sys.exit(code)
