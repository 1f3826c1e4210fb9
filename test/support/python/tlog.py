"""Verifies a transparency log with aics-tlog, as a program of Python would that has a key and knows nothing of ours.

In, each part if it is asked for:
  note: {"text", "name", "x": the public key as a JWK has it}
  tree: {"owner", "entries": [lines of an export]}
  inclusions: [{"owner", "entry": a line with its proof, "size", "root"}]
  consistencies: [{"from": {"size", "root"}, "to": {"size", "root"}, "proof"}]
Out: what was opened or the error, the root, and whether each proof holds. Roots and proofs are in base64, but base64url in the line of an entry.
"""

import base64
import hashlib
import json
import sys

from aics_tlog import (
    MerkleTree,
    parse_checkpoint,
    parse_note,
    verify_checkpoint,
    verify_consistency,
    verify_leaf_inclusion,
    vkey_from_ed25519,
)


def from_base64url(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def leaf_of(owner, entry):
    """What our documents say that the leaf is made from."""
    body = {name: entry[name] for name in ("salt", "family", "handle", "count")} | {"data": entry["data_text"]}
    digest = base64.urlsafe_b64encode(hashlib.sha256(canonical(body)).digest()).decode().rstrip("=")
    leaf = {"v": 1, "owner": owner, "ts": entry["ts"], "kind": entry["kind"], "body_s256": "s256:" + digest}
    return canonical(leaf if entry["handle"] is None else leaf | {"prev": entry["prev"]})


def opened(text, name, x):
    try:
        note = parse_note(text)
        result = verify_checkpoint(note, vkey_from_ed25519(name, from_base64url(x)), expected_origin=name)
        if not result.log_ok or not result.ok:
            return {"error": result.error or "not signed by this key"}
        head = parse_checkpoint(note.text)
        return {"origin": head.origin, "size": head.size, "root": base64.b64encode(head.root).decode()}
    except ValueError as error:
        return {"error": str(error)}


def included(owner, entry, size, root):
    hashes = from_base64url(entry["proof"])
    proof = [hashes[at : at + 32] for at in range(0, len(hashes), 32)]
    return verify_leaf_inclusion(leaf_of(owner, entry), entry["seq"] - 1, size, proof, base64.b64decode(root))


def consistent(older, newer, proof):
    roots = [base64.b64decode(head["root"]) for head in (older, newer)]
    return verify_consistency(older["size"], newer["size"], *roots, [base64.b64decode(one) for one in proof])


asked = json.load(sys.stdin)
answer = {}
if "note" in asked:
    answer["note"] = opened(**asked["note"])
if "tree" in asked:
    owner = asked["tree"]["owner"]
    tree = MerkleTree([leaf_of(owner, entry) for entry in asked["tree"]["entries"]])
    answer["tree"] = base64.b64encode(tree.root()).decode()
if "inclusions" in asked:
    answer["inclusions"] = [included(**one) for one in asked["inclusions"]]
if "consistencies" in asked:
    answer["consistencies"] = [consistent(one["from"], one["to"], one["proof"]) for one in asked["consistencies"]]
print(json.dumps(answer))
