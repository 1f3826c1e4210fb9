/** Contract, "Introspection and consume answers": what is not known of one of several, beside the others. */
import { expect, it } from 'vitest'
import { consumeEach, type IntrospectionEndpoint } from '../../src/surface/introspection.ts'
import { sha256 } from '../../src/wire/encoding.ts'
import { generatePrivateJwk, importPrivateJwk } from '../../src/wire/signatures/keys.ts'
import { asClientId, asOwner } from '../../src/wire/identifiers.ts'

const holder = { owner: asOwner('alice'), client_id: asClientId('demo-tools'), generation: 1 }

/** It spends what is called fresh, loses Postgres over what is called lost, and no longer has the server. */
const party: IntrospectionEndpoint = {
  guard: () => holder,
  issuer: { keys: [importPrivateJwk(generatePrivateJwk())] },
  grants: {
    consume: async (_holder, rptSha256) => {
      if (rptSha256.equals(sha256('lost'))) throw Object.assign(new Error('lost'), { code: 'ECONNRESET' })
      return rptSha256.equals(sha256('fresh')) ? { family: 'fam_x' } : undefined
    },
    read: async () => undefined,
  },
}
const told = (tokens: string[]) =>
  consumeEach(party, holder, tokens).catch((error: { code: string }) => error.code)
const UNKNOWN = { error: 'temporarily_unavailable' }

it('what is not known of one costs no other its answer', async () => {
  const spent = { consumed: true, family: 'fam_x' }
  expect(await told(['fresh', 'lost', 'refused'])).toEqual([spent, UNKNOWN, UNKNOWN])
  expect(await told(['refused', 'fresh'])).toEqual([UNKNOWN, spent])
})

it('what is true of all is the answer to the request', async () => {
  expect(await told(['refused', 'refused too'])).toBe('invalid_token')
  expect(await told(['lost', 'lost'])).toBe('ECONNRESET')
})

it('a refusal is not told for one of which nobody knows whether it was spent', async () => {
  expect(await told(['refused', 'lost'])).toEqual([UNKNOWN, UNKNOWN])
})
