/**
 * Contract, "Algorithms": libsodium and node:crypto give the same answer for everything that our rules let
 * through, so that no signer finds two servers of ours that disagree
 * (docs/decisions/0019-ed25519-by-libsodium.md).
 */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { afterEach, expect, it } from 'vitest'
import { useLibsodium } from '../../src/native/libsodium.ts'
import {
  generatePrivateJwk,
  importPrivateJwk,
  importPublicJwk,
  signEd25519,
  verifyEd25519,
  verifyEd25519Apart,
  verifyEd25519By,
  type PublicKey,
} from '../../src/wire/signatures/keys.ts'
import { ROOT } from '../support/repository.ts'
import { describeWith } from '../support/requirement.ts'
import { describeVectors } from '../support/vectors.ts'
import {
  add,
  BASE,
  encode,
  IDENTITY,
  littleEndian,
  multiply,
  ORDER,
  P,
  signature,
  SMALL,
  type Point,
} from './edwards.ts'

interface Wycheproof {
  testGroups: { publicKeyJwk: object; tests: { msg: string; sig: string; result: string }[] }[]
}
interface Negative {
  must_reject_keys: { jwk: object }[]
}

const found = useLibsodium()
verifyEd25519By()
afterEach(() => verifyEd25519By())

/** What each says; the same, or the test ends. */
async function verdict(bytes: Buffer, sig: Uint8Array, key: PublicKey): Promise<boolean> {
  verifyEd25519By()
  const byNode = [verifyEd25519(bytes, sig, key), await verifyEd25519Apart(bytes, sig, key)]
  useLibsodium()
  const bySodium = [verifyEd25519(bytes, sig, key), await verifyEd25519Apart(bytes, sig, key)]
  const one = byNode[0]!
  expect([...byNode, ...bySodium], sig.toString()).toEqual([one, one, one, one])
  return one
}
const keyAt = (point: Point): PublicKey =>
  importPublicJwk({ kty: 'OKP', crv: 'Ed25519', x: encode(point).toString('base64url') })
const smalls = Array.from({ length: 8 }, (_, n) => multiply(SMALL, BigInt(n)))
const a = 0x1234567890abcdef1234567890abcdef1234567n
const r = 0xfedcba0987654321fedcba0987654321n
const A = multiply(BASE, a)
const R = multiply(BASE, r)
const message = Buffer.from('a message')

describeWith(
  found.ed25519 === 'libsodium' ? { found } : { missing: `libsodium: ${found.why}` },
  'libsodium and node:crypto agree',
  () => {
    it('on signatures as they are made, of any length of message, and of none', async () => {
      await fc.assert(
        fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), fc.nat(511), async (bytes, bit) => {
          const key = importPrivateJwk(generatePrivateJwk())
          const other = importPrivateJwk(generatePrivateJwk())
          const sig = signEd25519(bytes, key)
          const text = Buffer.from(bytes)
          expect(await verdict(text, sig, key)).toBe(true)
          expect(await verdict(text, sig, other)).toBe(false)
          expect(await verdict(Buffer.concat([text, Buffer.of(0)]), sig, key)).toBe(false)
          sig[bit >> 3]! ^= 1 << (bit & 7)
          expect(await verdict(text, sig, key)).toBe(false)
          await verdict(text, sig.subarray(0, bit & 63), key)
        }),
      )
    })

    it('on any bytes for a key, also such that are no point', async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.uint8Array({ minLength: 32, maxLength: 32 }),
          fc.uint8Array({ minLength: 64, maxLength: 64 }),
          async (x, sig) => {
            const jwk = { kty: 'OKP', crv: 'Ed25519', x: Buffer.from(x).toString('base64url') }
            let key: PublicKey
            try {
              key = importPublicJwk(jwk)
            } catch {
              return // our rules do not let it through
            }
            await verdict(message, sig, key)
          },
        ),
      )
    })

    it('on the R with which a start tries it', () => {
      const { bytes } = signature(Buffer.from('usher'), { r, R: encode(add(R, SMALL)), a, A })
      expect([bytes.toString('base64'), encode(A).toString('base64')]).toEqual([
        'ylRuLjwonzyjE/vAzYSg4Hv3KQu6qkrp9DPACknX6mZBLW4eTArr6SxIJh+I83Ve9fdnn8hJRliHwHGIM036Ag==',
        'MgWIIXTjIb2bdGXLOzrvcRPCixJp4AgTm7nx2yHmF3U=',
      ])
    })

    it('on an R to which a signer added a point of small order', async () => {
      for (const [n, small] of smalls.entries()) {
        const { bytes } = signature(message, { r, R: encode(add(R, small)), a, A })
        expect(await verdict(message, bytes, keyAt(A))).toBe(n === 0)
      }
    })

    it('on a key to which its holder added a point of small order, whether or not the rest makes up for it', async () => {
      const seen = new Set<boolean>()
      for (const small of smalls.slice(1)) {
        const mixed = add(A, small)
        for (const added of smalls) {
          const text = Buffer.from(`message ${String(added[1])}`)
          const { bytes } = signature(text, { r, R: encode(add(R, added)), a, A: mixed })
          seen.add(await verdict(text, bytes, keyAt(mixed)))
        }
      }
      expect(seen).toEqual(new Set([true, false]))
    })

    it('on an R of small order, in each of its spellings: refused', async () => {
      const spellings = smalls.flatMap(([x, y]) => [
        encode([x, y]),
        encode([x + 1n, y]),
        ...(y < 19n ? [encode([x, y + P]), encode([x + 1n, y + P])] : []),
      ])
      for (const small of spellings)
        for (const key of [A, add(A, SMALL)]) {
          const { bytes } = signature(message, { r: 0n, R: small, a, A: key })
          expect(await verdict(message, bytes, keyAt(key))).toBe(false)
        }
      expect(smalls).toContainEqual(IDENTITY)
    })

    it('on an s beyond the order: refused', async () => {
      const { bytes, s } = signature(message, { r, R: encode(R), a, A })
      expect(await verdict(message, bytes, keyAt(A))).toBe(true)
      for (const other of [s + ORDER, s + 2n * ORDER, s + 8n * ORDER])
        expect(await verdict(message, Buffer.concat([encode(R), littleEndian(other)]), keyAt(A))).toBe(false)
    })
  },
)

if (found.ed25519 === 'libsodium') {
  describeVectors<Wycheproof>(
    'wycheproof/ed25519_test.json',
    'libsodium and node:crypto agree on every vector of Wycheproof',
    ({ testGroups }) => {
      it.each(testGroups.map(group => [group.publicKeyJwk, group.tests] as const))(
        'with the key %j',
        async (publicKeyJwk, tests) => {
          const key = importPublicJwk(publicKeyJwk, { allowTestKeys: true })
          for (const { msg, sig, result } of tests)
            expect(await verdict(Buffer.from(msg, 'hex'), Buffer.from(sig, 'hex'), key)).toBe(
              result === 'valid',
            )
        },
      )
    },
  )

  describeVectors<Negative>(
    'negative-ed25519-keys.json',
    'neither libsodium nor node:crypto is asked about a key that must not be imported',
    ({ must_reject_keys }) => {
      it.each(must_reject_keys)('the import refuses $jwk', ({ jwk }) => {
        expect(() => importPublicJwk(jwk)).toThrow()
      })
    },
  )
}

it('if there is no binary, node:crypto verifies, and it is said why', () => {
  const program = `
    Object.defineProperty(process, 'arch', { value: 'abacus' })
    const { useLibsodium } = await import(${JSON.stringify(join(ROOT, 'src/native/libsodium.ts'))})
    const { generatePrivateJwk, importPrivateJwk, signEd25519, verifyEd25519 } = await import(${JSON.stringify(join(ROOT, 'src/wire/signatures/keys.ts'))})
    const said = useLibsodium()
    const key = importPrivateJwk(generatePrivateJwk())
    const bytes = Buffer.from('bytes')
    console.log(JSON.stringify({ ...said, holds: verifyEd25519(bytes, signEd25519(bytes, key), key) }))`
  const out = execFileSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' })
  expect(JSON.parse(out)).toEqual({
    ed25519: 'node:crypto',
    why: `sodium-native is not installed, or has no binary for ${process.platform}-abacus`,
    holds: true,
  })
})
