// Verifies and makes cosignatures of witnesses (C2SP tlog-cosignature) with programs of others: torchwood, and the
// formats of transparency-dev. Notes are opened and signed by golang.org/x/mod/sumdb/note, as each of them wants it.
//
// In, as JSON on the standard input, each part if it is asked for:
//
//	open: {"note", "log": the log's verifier key, "witness": the witness's}
//	sign: {"note", "log", "name", "seed": 32 bytes of the witness's private key, in base64}
//
// Out, by library: what was opened with the time of the cosignature, or the error; and the note with a cosignature
// behind the log's signature, the verifier key of it, and the time.
package main

import (
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/torchwood"
	formats "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
)

type opening struct{ Note, Log, Witness string }

type signing struct {
	Note, Log, Name string
	Seed            []byte
}

type opened struct {
	Text  string `json:"text,omitempty"`
	Time  int64  `json:"time,omitempty"`
	Error string `json:"error,omitempty"`
}

type signed struct {
	Note    string `json:"note"`
	Witness string `json:"witness"`
	Time    int64  `json:"time"`
}

// A public key where torchwood wants a private one, to verify with.
type publicKey struct{ ed25519.PublicKey }

func (key publicKey) Public() crypto.PublicKey { return key.PublicKey }
func (publicKey) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return nil, errors.New("this is a public key")
}

var verifiers = map[string]func(vkey string) (note.Verifier, error){
	"formats": formats.NewVerifierForCosignatureV1,
	"torchwood": func(vkey string) (note.Verifier, error) {
		name, key, err := partsOf(vkey)
		if err != nil {
			return nil, err
		}
		signer, err := torchwood.NewCosignatureSigner(name, publicKey{key})
		if err != nil {
			return nil, err
		}
		if signer.Verifier().String() != vkey {
			return nil, errors.New("another verifier key")
		}
		return signer.Verifier(), nil
	},
}

var signers = map[string]func(name string, seed []byte) (note.Signer, error){
	"formats": func(name string, seed []byte) (note.Signer, error) {
		// The id of the key is made anew from what it says.
		key := base64.StdEncoding.EncodeToString(append([]byte{4}, seed...))
		return formats.NewSignerForCosignatureV1(fmt.Sprintf("PRIVATE+KEY+%s+00000000+%s", name, key))
	},
	"torchwood": func(name string, seed []byte) (note.Signer, error) {
		return torchwood.NewCosignatureSigner(name, ed25519.NewKeyFromSeed(seed))
	},
}

var times = map[string]func(note.Signature) (int64, error){
	"formats": func(signature note.Signature) (int64, error) {
		at, err := formats.CoSigV1Timestamp(signature)
		return at.Unix(), err
	},
	"torchwood": torchwood.CosignatureTimestamp,
}

func partsOf(vkey string) (string, ed25519.PublicKey, error) {
	parts := strings.SplitN(vkey, "+", 3)
	if len(parts) != 3 {
		return "", nil, errors.New("no verifier key")
	}
	key, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil || len(key) != 1+ed25519.PublicKeySize || key[0] != 4 {
		return "", nil, errors.New("no verifier key of a witness")
	}
	return parts[0], key[1:], nil
}

func open(library string, one opening) opened {
	witness, err := verifiers[library](one.Witness)
	if err != nil {
		return opened{Error: err.Error()}
	}
	log, err := note.NewVerifier(one.Log)
	if err != nil {
		return opened{Error: err.Error()}
	}
	found, err := note.Open([]byte(one.Note), note.VerifierList(log, witness))
	if err != nil {
		return opened{Error: err.Error()}
	}
	for _, signature := range found.Sigs {
		if signature.Name != witness.Name() || signature.Hash != witness.KeyHash() {
			continue
		}
		at, err := times[library](signature)
		if err != nil {
			return opened{Error: err.Error()}
		}
		return opened{Text: found.Text, Time: at}
	}
	return opened{Error: "not cosigned by this witness"}
}

func sign(library string, one signing) signed {
	log, err := note.NewVerifier(one.Log)
	check(err)
	found, err := note.Open([]byte(one.Note), note.VerifierList(log))
	check(err)
	signer, err := signers[library](one.Name, one.Seed)
	check(err)
	made, err := note.Sign(found, signer)
	check(err)
	key := append([]byte{4}, ed25519.NewKeyFromSeed(one.Seed).Public().(ed25519.PublicKey)...)
	vkey := fmt.Sprintf("%s+%08x+%s", one.Name, signer.KeyHash(), base64.StdEncoding.EncodeToString(key))
	verified := open(library, opening{string(made), one.Log, vkey})
	if verified.Error != "" {
		check(errors.New(verified.Error))
	}
	return signed{string(made), vkey, verified.Time}
}

func main() {
	var asked struct {
		Open *opening
		Sign *signing
	}
	check(json.NewDecoder(os.Stdin).Decode(&asked))
	answer := map[string]any{}
	for library := range verifiers {
		if asked.Open != nil {
			answer[library] = open(library, *asked.Open)
		}
		if asked.Sign != nil {
			answer[library] = sign(library, *asked.Sign)
		}
	}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	check(out.Encode(answer))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
