/**
 * What a process writes is what its readers take: a file whose documents nobody would read stops the start.
 * Contract: "Resource metadata (RFC 9728)", "Registry materialization", "Limits".
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { readAuthorityConfig } from '../../src/config.ts'
import { DOCUMENT_BYTES_MAX, KEYS_MAX } from '../../src/wire/document-bounds.ts'
import { generatePrivateJwk, importPrivateJwk, parseJwks, publicJwk } from '../../src/wire/signatures/keys.ts'
import {
  parseResourceMetadata,
  resourceMetadata,
  verifySignedMetadata,
} from '../../src/wire/resources/resource-metadata.ts'
import { parseOwnerListing } from '../../src/wire/resources/owner-resources.ts'
import { faultsOf, SIDECAR_OWNER, sidecarFiles } from '../support/config-files.ts'

const { folder, read } = sidecarFiles()

interface GivenTool {
  tool: string
  resource_id: string
  scopes: string[]
  consequence?: string
}
const RESOURCE = 'https://tools.example.com/mcp/alice'
const many = (count: number, one: (n: number) => Partial<GivenTool> = () => ({})): GivenTool[] =>
  Array.from({ length: count }, (_, n) => ({
    tool: `tool_${n}`,
    resource_id: `alice/${Math.floor(n / 40)}`,
    scopes: [`scope_${n}`],
    ...one(n),
  }))

const faults = (tools: GivenTool[]): string[] => faultsOf(() => read([{ ...SIDECAR_OWNER, tools }]))

/** What a sidecar with these tools publishes, as its readers read it. */
function published(tools: GivenTool[]): { bytes: number } {
  const key = importPrivateJwk(generatePrivateJwk())
  const document = resourceMetadata(
    {
      resource: RESOURCE,
      authorization_servers: ['https://as.example.com'],
      jwks_uri: 'https://tools.example.com/jwks',
      scopes_supported: [...new Set(tools.flatMap(({ scopes }) => scopes))],
      tool_surfaces: tools.map(({ tool, scopes, consequence }) => ({
        tool,
        resource_scopes: scopes,
        ...(consequence !== undefined && { consequence }),
      })),
    },
    key,
  )
  parseResourceMetadata(document, RESOURCE)
  verifySignedMetadata(document.signed_metadata!, [{ ...key, kid: key.kid }], RESOURCE)
  const byId = Map.groupBy(tools, ({ resource_id }) => resource_id)
  parseOwnerListing({
    owner: 'alice',
    resources: [...byId].map(([_id, of]) => ({
      _id,
      name: _id,
      resource_scopes: [...new Set(of.flatMap(({ scopes }) => scopes))],
      tools: of.map(({ tool }) => ({ tool })),
    })),
  })
  return { bytes: Buffer.byteLength(JSON.stringify(document)) }
}

describe('A file of a sidecar that is taken is one whose documents are read', () => {
  test.each([
    ['300 tools', many(300)],
    ['257 tools with a scope each', many(257)],
    [
      '257 tools of one scope and one resource',
      many(257, () => ({ scopes: ['read'], resource_id: 'alice/all' })),
    ],
    ['50 scopes of one resource', many(50, () => ({ resource_id: 'alice/all' }))],
    ['as many tools as fit', many(340, () => ({ scopes: ['read'], resource_id: 'alice/all' }))],
  ])('%s', (_what, tools) => {
    expect(faults(tools)).toEqual([])
    expect(published(tools).bytes).toBeLessThanOrEqual(DOCUMENT_BYTES_MAX)
  })

  test.each([
    [
      '2,000 tools',
      many(2_000, () => ({ scopes: ['read'], resource_id: 'alice/all' })),
      /bytes of their metadata are \d+, and readers take 65536: divide/,
    ],
    ['1,001 scopes', many(1_001), /their scopes are 1001, and readers take 1000: divide/],
    [
      '51 scopes of one resource',
      many(51, () => ({ resource_id: 'alice/all' })),
      /the scopes of alice\/all are 51, and readers take 50: give some/,
    ],
    [
      '1,001 tools of one resource',
      many(1_001, () => ({ scopes: ['r'], resource_id: 'alice/all' })),
      /the tools of alice\/all are 1001, and readers take 1000/,
    ],
    [
      '51 scopes of one tool',
      many(1, () => ({ scopes: Array.from({ length: 51 }, (_, n) => `s${n}`) })),
      /scopes/,
    ],
    ['a scope of 201 characters', many(1, () => ({ scopes: ['s'.repeat(201)] })), /1 to 200 visible ASCII/],
    [
      'scopes that no challenge has room for',
      many(1, () => ({ scopes: Array.from({ length: 20 }, (_, n) => `${n}`.padEnd(200, 's')) })),
      /bytes of a challenge are \d+, and readers take 8192/,
    ],
  ])('and one with %s is refused, with what to do', (_what, tools, sentence) => {
    expect(faults(tools).join('\n')).toMatch(sentence)
  })
})

describe('A set of keys', () => {
  const config = (count: number) => {
    const file = join(folder, `keys-${count}.json`)
    writeFileSync(file, JSON.stringify({ keys: Array.from({ length: count }, generatePrivateJwk) }), {
      mode: 0o600,
    })
    return readAuthorityConfig({
      UMA_AS_ISSUER: 'https://as.example.com',
      DATABASE_URL: 'postgres://x',
      UMA_AS_KEYS_FILE: file,
    })
  }

  test('as large as may be published is read whole', () => {
    const { keys } = config(KEYS_MAX)
    const set = { keys: keys.map(key => publicJwk(key)) }
    expect(parseJwks(set)).toHaveLength(KEYS_MAX)
    expect(Buffer.byteLength(JSON.stringify(set))).toBeLessThanOrEqual(DOCUMENT_BYTES_MAX)
  })

  test('with one more is refused at the start, because readers would not see the last', () => {
    expect(faultsOf(() => config(KEYS_MAX + 1))).toEqual([
      expect.stringMatching(/101 keys, and readers .* take 100/),
    ])
  })

  test('of others may list keys of other kinds before ours', () => {
    const rsa = Array.from({ length: 300 }, (_, n) => ({ kty: 'RSA', n: 'AQAB', e: 'AQAB', kid: `rsa-${n}` }))
    const key = importPrivateJwk(generatePrivateJwk())
    expect(parseJwks({ keys: [...rsa, publicJwk(key)] })).toMatchObject([{ thumbprint: key.thumbprint }])
  })
})
