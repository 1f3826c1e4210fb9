/**
 * How long what a resource publishes is kept, and when it is looked at again: contract, "Resource metadata
 * (RFC 9728)".
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  createPublishedResources,
  PublicationFault,
  type PublishedResources,
} from '../../src/authority/registry/published-resources.ts'
import { createOutbound, type Outbound } from '../../src/http/outbound/outbound.ts'
import { createRemoteDocuments } from '../../src/http/outbound/remote-documents.ts'
import { generatePrivateJwk, importPrivateJwk, publicJwk } from '../../src/wire/signatures/keys.ts'
import { startResourceServer, type TestResourceServer } from '../support/resource-server.ts'

const ISSUER = 'https://as.example'
let tools: TestResourceServer
let outbound: Outbound
let published: PublishedResources
let now: number
const patience = () => ({ deadline: now + 3_000, favoured: false })
beforeEach(async () => {
  now = Date.now()
  tools = await startResourceServer(ISSUER)
  outbound = createOutbound({ devLoopback: true, publicOnly: true })
  const documents = createRemoteDocuments({
    outbound,
    clock: () => now,
    refetchSeconds: 30,
    failureSeconds: 30,
  })
  published = createPublishedResources(documents, ISSUER)
})
afterEach(async () => {
  await outbound.close()
  await tools.close()
})

const read = () => published.document(tools.resource('alice'), patience())
const reads = () => tools.server.to(tools.documentPath('alice')).length
const reasonOf = async (promise: Promise<unknown>): Promise<string> => {
  const error: unknown = await promise.then(
    () => undefined,
    (caught: unknown) => caught,
  )
  expect(error).toBeInstanceOf(PublicationFault)
  return (error as PublicationFault).reason
}

describe('A document', () => {
  it('that establishes its claim is kept for 300 s', async () => {
    await read()
    now += 299_000
    await read()
    expect(reads()).toBe(1)
    now += 1_000
    await read()
    expect(reads()).toBe(2)
  })

  it('that is missing is asked for again after 30 s, not before', async () => {
    tools.server.script(tools.documentPath('alice'), (_received, nth) =>
      nth === 1 ? { status: 404 } : undefined,
    )
    expect(await reasonOf(read())).toBe('document_status')
    now += 29_000
    expect(await reasonOf(read())).toBe('document_status')
    now += 1_000
    expect(await read()).toMatchObject({ resource: tools.resource('alice') })
    expect(reads()).toBe(2)
  })

  it('that does not establish its claim is looked at again after 30 s too: its fault may be mended', async () => {
    tools.twists['alice'] = { document: plain => ({ ...plain, authorization_servers: [] }) }
    expect(await reasonOf(read())).toBe('document_inconsistent')
    tools.twists['alice'] = {}
    now += 29_000
    expect(await reasonOf(read())).toBe('document_inconsistent')
    now += 1_000
    expect(await read()).toMatchObject({ authorization_servers: [ISSUER] })
  })

  it('is fetched once, even if many want it at once', async () => {
    await Promise.all(Array.from({ length: 10 }, read))
    expect(reads()).toBe(1)
  })

  it.each(['not a URL', 'https://tools.example/#x', 'ftp://tools.example'])(
    'of what names no resource is refused: %s',
    async resource => {
      await expect(published.document(resource, patience())).rejects.toMatchObject({
        code: 'invalid_request',
      })
    },
  )
})

describe('Keys', () => {
  it('that were rotated in are found after 30 s, by kid or by thumbprint', async () => {
    const next = importPrivateJwk(generatePrivateJwk())
    const document = await read()
    expect(await published.keys(document, patience()).keys()).toMatchObject([{ x: tools.key.x }])
    tools.twists['alice'] = { keys: () => ({ keys: [{ ...publicJwk(next), kid: 'new' }] }) }
    expect(await published.keys(document, patience()).find('new')).toBeUndefined()
    now += 30_000
    expect(await published.keys(document, patience()).find('new')).toMatchObject({ x: next.x })
    expect(await published.keys(document, patience()).find(next.thumbprint)).toMatchObject({ x: next.x })
    expect(tools.server.to('/jwks/alice')).toHaveLength(2)
  })

  it('signed claims of a key just rotated in are verified with it', async () => {
    const next = importPrivateJwk(generatePrivateJwk())
    tools.twists['alice'] = { keys: () => ({ keys: [publicJwk(next)] }) }
    const document = await read()
    expect(await reasonOf(published.signedClaims(document, patience()))).toBe('metadata_signature')
    tools.twists['alice'] = {}
    now += 30_000
    expect(await published.signedClaims(document, patience())).toMatchObject({
      owner_resources_endpoint: `${tools.origin}/owner-resources/alice`,
    })
  })

  it('that cannot be had are told with their reason', async () => {
    tools.server.script('/jwks/alice', { status: 500 })
    const document = await read()
    expect(await reasonOf(published.keys(document, patience()).keys())).toBe('keys_status')
  })
})

describe('What may be over in a moment', () => {
  it.each([
    ['document_status', true, { status: 502 }],
    ['document_timeout', true, { write: () => undefined }],
    ['document_malformed', false, { body: '{', headers: { 'content-type': 'application/json' } }],
    ['document_media_type', false, { body: '{}' }],
  ])('%s: %s', async (reason, passing, script) => {
    tools.server.script(tools.documentPath('alice'), script)
    const short = { deadline: now + 200, favoured: false }
    await expect(published.document(tools.resource('alice'), short)).rejects.toMatchObject({
      reason,
      passing,
    })
  })
})
