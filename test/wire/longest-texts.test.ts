/**
 * Texts of strangers are bounded where they are first read: a host by what DNS allows, a name of one thing by
 * what an index holds. Contract: "Resources and their fields".
 */
import { describe, expect, it } from 'vitest'
import { mandateFault } from '../../src/rules/joint/mandate.ts'
import { isAgentIssuer, operatorOrigin, verifyAgentToken } from '../../src/wire/agents/agent-identity.ts'
import { isPossibleHost } from '../../src/wire/hosts.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import {
  digestMember,
  idMember,
  idsMember,
  isBareOrigin,
  isWebUrl,
  storableMember,
  urlMember,
} from '../../src/wire/json-members.ts'
import { Refusal } from '../../src/wire/refusal.ts'

/** A host of so many characters, of labels that are as long as they may be. */
function hostOf(length: number): string {
  const labels = []
  for (let left = length; left > 0; left -= 64) labels.push('a'.repeat(Math.min(left, 63)))
  return labels.join('.')
}
const LONGEST = hostOf(253)
const TOO_LONG: [string, string][] = [
  ['of 254 characters', `a${LONGEST.slice(0, 62)}.${LONGEST.slice(63)}b`.slice(0, 254)],
  ['of 255 characters', hostOf(255)],
  ['of 6,000 characters', hostOf(6_000)],
  ['with a label of 64', `${'a'.repeat(64)}.example`],
  ['of one label of 6,000', 'a'.repeat(6_000)],
  ['with an empty label', 'a..example'],
]
const READERS: [string, (host: string) => boolean][] = [
  ['client_id', host => operatorOrigin(`https://${host}/client.json`) !== undefined],
  ['client_id with a port', host => operatorOrigin(`https://${host}:8443/client.json`) !== undefined],
  ['an agent-token issuer', host => isAgentIssuer(`https://${host}`)],
  ['any URL', host => isWebUrl(`https://${host}/path?query`)],
  ['an origin', host => isBareOrigin(`https://${host}`)],
  [
    'a member that is a URL',
    host => passes(() => urlMember({ jwks_uri: `https://${host}/jwks` }, 'jwks_uri')),
  ],
  [
    'the issuer of a holder',
    host =>
      mandateFault({
        account: 'joint',
        tally: 'https://tally.example',
        holders: [
          { owner: 'alice', issuer: `https://${host}`, weight: 1 },
          { owner: 'bob', issuer: 'https://b.example', weight: 1 },
        ],
        rule: { kind: 'all', threshold: 2 },
        resources: ['joint/*'],
      } as never) === undefined,
  ],
]

function passes(read: () => unknown): boolean {
  try {
    read()
    return true
  } catch (error) {
    if (!(error instanceof Refusal) || error.code !== 'invalid_request') throw error
    return false
  }
}

describe.each(READERS)('A host in %s', (_member, takes) => {
  it('may have the 253 characters of DNS, be an address, and no more than that', () => {
    expect(LONGEST).toHaveLength(253)
    expect(takes(LONGEST)).toBe(true)
    expect(takes('tools.example')).toBe(true)
    for (const [what, host] of TOO_LONG) expect([what, takes(host)]).toEqual([what, false])
  })
})

it('an address is a possible host, in each form that a URL has', () => {
  for (const host of ['127.0.0.1', '[::1]', '[2001:db8::1]', '192.0.2.1'])
    expect(isPossibleHost(host)).toBe(true)
})

it('an issuer in handles has 512 characters at most', () => {
  const issuer = (length: number) => `https://as.example/${'a'.repeat(length - 19)}`
  expect([isAgentIssuer(issuer(512)), isAgentIssuer(issuer(513))]).toEqual([true, false])
})

describe('A name of one thing, such as jti', () => {
  it.each([
    ['of 255 characters', 'x'.repeat(255), true],
    ['of 255 characters of three bytes', '\u6f22'.repeat(255), true],
    ['of 256 characters', 'x'.repeat(256), false],
    ['of 6,000 characters', 'x'.repeat(6_000), false],
    ['that is empty', '', false],
    ['with NUL', 'a\0b', false],
    ['with a line feed', 'a\nb', false],
    ['that is a number', 7, false],
    ['that is missing', undefined, false],
  ])('%s', (_what, jti, taken) => {
    expect(passes(() => idMember(jti === undefined ? {} : { jti }, 'jti'))).toBe(taken)
  })

  it('is bounded in agent tokens', () => {
    const key = importPrivateJwk(generatePrivateJwk())
    const now = 1_800_000_000
    const token = (jti: string) =>
      signJws(
        {
          typ: 'aa-agent+jwt',
          payload: {
            iss: 'https://as.example',
            sub: 'one',
            jti,
            dwk: 'aauth-agent.json',
            iat: now,
            exp: now + 60,
            cnf: { jwk: key.jwk },
          },
        },
        key,
      )
    const published = [{ ...key, kid: key.kid }]
    expect(passes(() => verifyAgentToken(token('x'.repeat(255)), published, now))).toBe(true)
    expect(passes(() => verifyAgentToken(token('x'.repeat(256)), published, now))).toBe(false)
  })
})

describe('A digest of an agreement', () => {
  const digest = `s256:${'Aa0-_'.repeat(9).slice(0, 43)}`
  it.each([
    ['of 43 characters', digest, true],
    ['of 42 characters', digest.slice(0, -1), false],
    ['of 8,000 characters', digest.padEnd(8_000, 'x'), false],
    ['without its prefix', digest.slice(5), false],
    ['with NUL', `${digest.slice(0, -1)}\0`, false],
    ['with a line feed behind it', `${digest}\n`, false],
  ])('%s', (_what, contract, taken) => {
    expect(passes(() => digestMember({ contract }, 'contract'))).toBe(taken)
  })
})

describe('Names in a list', () => {
  it.each<[string, unknown, boolean]>([
    ['are 1 to as many as are taken', ['a', 'b'], true],
    ['are not none', [], false],
    ['are no more', ['a', 'b', 'c'], false],
    ['are each bounded', ['a', 'x'.repeat(256)], false],
    ['hold no NUL', ['a\0'], false],
    ['are texts', ['a', 7], false],
    ['stand in a list', 'a', false],
  ])('%s', (_what, negotiations, taken) => {
    expect(passes(() => idsMember({ negotiations } as never, 'negotiations', 2))).toBe(taken)
  })
})

it('text for a database holds no NUL', () => {
  expect(passes(() => storableMember({ resource_id: 'a\0' }, 'resource_id'))).toBe(false)
  expect(passes(() => storableMember({ resource_id: 'a b' }, 'resource_id'))).toBe(true)
})
