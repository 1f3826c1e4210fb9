// Prints signed-notes.json: notes that golang.org/x/mod/sumdb/note signs with the keys whose seeds are 32 equal
// bytes, and for changed notes whether it opens them. No test runs it: what it printed is kept. To run it:
//
//	go mod init notes && go get golang.org/x/mod@v0.32.0 && go run signed-notes.go > signed-notes.json
package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

type signed struct {
	Name string `json:"name"`
	Seed byte   `json:"seed"`
	X    string `json:"x"`
	Text string `json:"text"`
	Note string `json:"note"`
}

type changed struct {
	Change string `json:"change"`
	Note   string `json:"note"`
	Opens  bool   `json:"opens"`
}

func keysOf(name string, seed byte) (note.Signer, note.Verifier, string) {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32))
	public := private.Public().(ed25519.PublicKey)
	id := sha256.Sum256([]byte(name + "\n\x01" + string(public)))
	hash := hex.EncodeToString(id[:4])
	encode := func(key []byte) string { return base64.StdEncoding.EncodeToString(append([]byte{1}, key...)) }
	signer, err := note.NewSigner(fmt.Sprintf("PRIVATE+KEY+%s+%s+%s", name, hash, encode(private.Seed())))
	check(err)
	verifier, err := note.NewVerifier(fmt.Sprintf("%s+%s+%s", name, hash, encode(public)))
	check(err)
	return signer, verifier, base64.RawURLEncoding.EncodeToString(public)
}

func main() {
	var notes []signed
	for _, one := range []struct {
		name string
		seed byte
		text string
	}{
		{"as.example/ledger/AbCdEfGhIjKl", 1, "as.example/ledger/AbCdEfGhIjKl\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n"},
		{"as.example/ledger/AbCdEfGhIjKl", 2, "as.example/ledger/AbCdEfGhIjKl\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"},
		{"as.example:8443/ledger/x", 3, "as.example:8443/ledger/x\n9007199254740991\nG7l9zCFjXUfiZj79/QoXRobZjdcBNS3SzQbotD/T0wU=\n"},
		{"schlüssel", 4, "Ognuno sta solo\n\ned è subito sera.\n"},
	} {
		signer, _, x := keysOf(one.name, one.seed)
		made, err := note.Sign(&note.Note{Text: one.text}, signer)
		check(err)
		notes = append(notes, signed{one.name, one.seed, x, one.text, string(made)})
	}
	_, verifier, _ := keysOf(notes[1].Name, notes[1].Seed)
	other, _, _ := keysOf("witness.example", 5)
	both, err := note.Sign(&note.Note{Text: notes[1].Text}, other)
	check(err)
	whole, line := notes[1].Note, strings.SplitAfter(notes[1].Note, "\n\n")[1]
	second := strings.SplitAfter(string(both), "\n\n")[1]
	replace := func(old, new string) string { return strings.Replace(whole, old, new, 1) }
	var changes []changed
	for _, one := range []struct{ change, note string }{
		{"nothing", whole},
		{"another's signature behind", whole + second},
		{"another's signature before", notes[1].Text + "\n" + second + line},
		{"another's signature alone", string(both)},
		{"the size", replace("20852163", "20852164")},
		{"the text's last newline left out", replace("=\n\n", "=\n")},
		{"an empty line before the text", "\n" + whole},
		{"the last newline left out", strings.TrimSuffix(whole, "\n")},
		{"a newline behind", whole + "\n"},
		{"a carriage return", replace("\n", "\r\n")},
		{"a tab in the text", replace("20852163", "20852163\t")},
		{"a hyphen in place of the dash", replace("— ", "- ")},
		{"two spaces behind the dash", replace("— ", "—  ")},
		{"two spaces behind the name", replace("— "+notes[1].Name+" ", "— "+notes[1].Name+"  ")},
		{"a plus in the name", replace("— as.", "— a+s.")},
		{"no signature", notes[1].Text + "\n"},
		{"no padding", strings.Replace(whole, "=\n", "\n", -1)},
		{"text behind the signature", strings.TrimSuffix(whole, "\n") + " x\n"},
		{"bytes that are no UTF-8", replace("20852163", "2085216\xff")},
	} {
		_, err := note.Open([]byte(one.note), note.VerifierList(verifier))
		changes = append(changes, changed{one.change, base64.StdEncoding.EncodeToString([]byte(one.note)), err == nil})
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	check(out.Encode(map[string]any{"notes": notes, "changed": changes}))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
