// Prints tlog.json: what golang.org/x/mod/sumdb/tlog makes of trees whose leaf n is the text "leaf n". For each
// size that is the root, and the SHA-256 of all proofs one after the other: of inclusion of each leaf, and of
// consistency with the trees of 1 leaf to all. No test runs it: what it printed is kept. To run it:
//
//	go mod init tlog && go get golang.org/x/mod@v0.32.0 && go run tlog.go > tlog.json
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/mod/sumdb/tlog"
)

type tree struct {
	Size        int64  `json:"size"`
	Root        string `json:"root"`
	Inclusion   string `json:"inclusion"`
	Consistency string `json:"consistency"`
}

func main() {
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		hashes := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			hashes[i] = stored[index]
		}
		return hashes, nil
	})
	shown := map[int64]bool{}
	for _, size := range []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 256, 257, 700} {
		shown[size] = true
	}
	var trees []tree
	for size := int64(1); size <= 700; size++ {
		hashes, err := tlog.StoredHashes(size-1, []byte(fmt.Sprintf("leaf %d", size-1)), reader)
		check(err)
		stored = append(stored, hashes...)
		if !shown[size] {
			continue
		}
		root, err := tlog.TreeHash(size, reader)
		check(err)
		inclusion, consistency := sha256.New(), sha256.New()
		for index := int64(0); index < size; index++ {
			proof, err := tlog.ProveRecord(size, index, reader)
			check(err)
			for _, hash := range proof {
				inclusion.Write(hash[:])
			}
			path, err := tlog.ProveTree(size, index+1, reader)
			check(err)
			for _, hash := range path {
				consistency.Write(hash[:])
			}
		}
		trees = append(trees, tree{size, hex.EncodeToString(root[:]), hex.EncodeToString(inclusion.Sum(nil)), hex.EncodeToString(consistency.Sum(nil))})
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	check(out.Encode(trees))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
