/**
 * contract, "Grant answer (beat 4)", seen from the agent: a grant or a receipt that contradicts what was
 * signed is not kept.
 */
import { decodeJwt } from 'jose'
import { describe, expect, it } from 'vitest'
import { memoryStore, type AgentOptions } from '../../src/agent/index.ts'
import { openClaimToken, signAgreement } from '../../src/wire/negotiation/agreement.ts'
import { s256, s256Json } from '../../src/wire/encoding.ts'
import type { JsonObject } from '../../src/wire/json.ts'
import { originBase, signCheckpoint } from '../../src/wire/ledger/checkpoint.ts'
import { headOfCheckpoint } from '../../src/wire/ledger/ledger-head.ts'
import type { ReceiptClaims } from '../../src/wire/negotiation/receipt.ts'
import type { TermsTemplate } from '../../src/wire/negotiation/terms.ts'
import type { RptClaims } from '../../src/wire/negotiation/tokens.ts'
import { startScriptedPeers, type Twists } from '../support/scripted-resource.ts'
import { startedForEach } from '../support/started.ts'
import { newKey } from '../support/wire-samples.ts'
import { agentWith } from './agents.ts'
import { asFamily, asOwner } from '../../src/wire/identifiers.ts'

const peers = startedForEach(startScriptedPeers)
const store = memoryStore()
const call = (options: Partial<AgentOptions>) =>
  agentWith(options).call({ resource: peers.resource, tool: 'portfolio_read' })

const logKey = newKey()
const headAt = (origin: string) =>
  headOfCheckpoint(signCheckpoint({ origin, size: 5, root: Buffer.alloc(32, 7) }, logKey), logKey.kid)

type Hostile = [what: string, twist: () => Twists]

describe('a grant is not kept, and no call made with it,', () => {
  const other = newKey()
  const hostile: Hostile[] = [
    ['when another key signed it', () => ({ signWith: other })],
    [
      'when it is for another resource',
      () => ({ rpt: plain => ({ ...plain, aud: 'https://other.example/mcp' }) }),
    ],
    ['when it has ended', () => ({ rpt: plain => ({ ...plain, exp: plain.iat - 1 }) })],
    [
      'when it is by another issuer',
      () => ({ rpt: plain => ({ ...plain, iss: 'https://as.elsewhere.example' }) }),
    ],
    [
      'when it is bound to another key',
      () => ({ rpt: plain => ({ ...plain, cnf: { jwk: { kty: 'OKP', crv: 'Ed25519', x: other.x } } }) }),
    ],
    [
      'when its contract is not the agreement in the receipt',
      () => ({ rpt: plain => ({ ...plain, contract: s256('x') }) }),
    ],
    [
      'when it belongs to another negotiation than its receipt',
      () => ({ rpt: plain => ({ ...plain, family: asFamily('fam_other') }) }),
    ],
    ['when its receipt is for another grant', () => ({ receipt: plain => ({ ...plain, rpt: 'rpt_other' }) })],
    [
      'when its receipt names another owner',
      () => ({ receipt: plain => ({ ...plain, owner: asOwner('mallory') }) }),
    ],
    [
      'when its receipt states another hash',
      () => ({ receipt: plain => ({ ...plain, agreement: s256('x') }) }),
    ],
    [
      'when its receipt states another key',
      () => ({ receipt: plain => ({ ...plain, cnf: { jkt: other.thumbprint } }) }),
    ],
    [
      'when its receipt states another family',
      () => ({ receipt: plain => ({ ...plain, family: asFamily('fam_other') }) }),
    ],
    [
      'when its receipt states other terms',
      () => ({ receipt: plain => ({ ...plain, template_id: 'alice/reading/v2' }) }),
    ],
    [
      "when its receipt has the head of another owner's ledger",
      () => ({ receipt: plain => ({ ...plain, ledger_head: headAt(`${originBase(peers.issuer)}other`) }) }),
    ],
    [
      "when its receipt has the head of another issuer's ledger",
      () => ({ receipt: plain => ({ ...plain, ledger_head: headAt('as.elsewhere.example/ledger/tag') }) }),
    ],
    [
      'when its receipt has a head that is none',
      () => ({
        receipt: plain => ({
          ...plain,
          ledger_head: { ...headAt(`${originBase(peers.issuer)}tag`), sig: 'short' },
        }),
      }),
    ],
    [
      'when it permits nothing on the resource agreed to',
      () => ({
        rpt: plain => ({
          ...plain,
          permissions: [{ resource_id: 'alice/other', resource_scopes: ['read'], exp: plain.exp }],
        }),
      }),
    ],
    [
      'when it is for another operation',
      () => ({
        perOperation: true,
        rpt: plain => ({
          ...plain,
          operation: { tool: 'portfolio_read', params_s256: s256Json({ qty: 2000 }) },
        }),
      }),
    ],
    [
      'when its receipt embeds an agreement that another key signed',
      () => embedding(template => ({ template, key: other })),
    ],
    [
      'when its receipt embeds an agreement to more than was signed',
      () => embedding(template => ({ template: { ...template, resource_id: 'alice/everything' } })),
    ],
    [
      'when its receipt embeds an agreement about another operation',
      () => ({
        ...embedding(template => ({
          template,
          operation: { tool: 'portfolio_read', params: { qty: 2000 } },
        })),
        perOperation: true,
      }),
    ],
  ]
  it.each(hostile)('%s', async (_what, twist) => {
    Object.assign(peers.twists, twist())
    await expect(call({ store, key: agentKey })).rejects.toMatchObject({
      code: 'grant_untrusted',
      terminal: true,
    })
    expect([await store.receipts(), await store.grants(peers.resource)]).toEqual([[], []])
    expect(peers.tools.to('/mcp/alice')).toHaveLength(1)
  })
})

describe('a grant that ends while its keys are waited for', () => {
  it('is refused, because it is judged by the time after that', async () => {
    let passed = 0
    peers.authority.script('/jwks', () => {
      passed = 100_000
      return undefined
    })
    const now = (): number => Date.now() / 1000 + passed
    await expect(call({ now })).rejects.toMatchObject({ code: 'grant_untrusted' })
    expect(peers.tools.to('/mcp/alice')).toHaveLength(1)
  })
})

describe('a grant for another address than the one called', () => {
  it('is refused with both addresses, and with who can mend it', async () => {
    peers.twists.rpt = plain => ({ ...plain, aud: 'https://other.example/mcp' })
    await expect(call({})).rejects.toMatchObject({
      code: 'grant_untrusted',
      detail: expect.stringContaining(
        `is for https://other.example/mcp, and ${peers.resource} was called: the authority has this resource under another address than the one called. Tell whoever runs the server.`,
      ) as string,
    })
  })
})

describe("a receipt with a head of the owner's ledger", () => {
  it.each(['tag', 'tag/1764374400'])(
    'is kept with it, if its origin has the tag of the ticket: %s',
    async tag => {
      const ledger_head = headAt(originBase(peers.issuer) + tag)
      peers.twists.receipt = plain => ({ ...plain, ledger_head })
      const { receipt } = await call({})
      expect(decodeJwt(receipt!.receipt)['ledger_head']).toEqual(ledger_head)
    },
  )
})

describe('a receipt that names no owner', () => {
  const unnamed = (plain: ReceiptClaims) => ({ ...plain, owner: undefined }) as unknown as ReceiptClaims

  it('is about the owner of the grant that was verified with it, and kept so', async () => {
    peers.twists.receipt = unnamed
    const { receipt, grant } = await call({})
    expect([receipt!.owner, receipt!.rpt]).toEqual(['alice', grant!.jti])
  })

  it.each<Hostile>([
    [
      'if the grant names none',
      () => ({ rpt: plain => ({ ...plain, owner: undefined }) as unknown as RptClaims }),
    ],
    ['if another key signed the grant', () => ({ signWith: newKey() })],
  ])('is refused %s', async (_what, twist) => {
    Object.assign(peers.twists, { receipt: unnamed }, twist())
    await expect(call({})).rejects.toMatchObject({ code: 'grant_untrusted' })
  })
})

describe('a receipt of a request that waited already', () => {
  it('may embed an earlier agreement of our own to the same terms, resource and operation', async () => {
    const earlier = embedding(template => ({
      template: { ...template, nonce: 'earlier', family: asFamily('fam_earlier') },
      reason: 'first time',
    }))
    Object.assign(peers.twists, earlier)
    const { receipt, grant } = await call({ key: agentKey })
    expect(receipt!.family).toBe('fam_earlier')
    expect(grant!.contract).not.toBe(peers.agreements[0]!.hash)
  })
})

const agentKey = newKey()

/** A grant and receipt, consistent between them, around another agreement than the one presented. */
function embedding(
  change: (template: TermsTemplate) => {
    template: TermsTemplate
    key?: typeof agentKey
    operation?: { tool: string; params: JsonObject }
    reason?: string
  },
): Twists {
  const embedded = (): { compact: string; template: TermsTemplate; jkt: string } => {
    const { jwk: _jwk, iss: _iss, aud, iat, ...claims } = peers.agreements.at(-1)!.claims
    const { key = agentKey, ...content } = change(claims as unknown as TermsTemplate)
    const signed = signAgreement({ aud: aud as string, iat: iat as number, ...content }, key)
    return { compact: openClaimToken(signed).compact, template: content.template, jkt: key.thumbprint }
  }
  return {
    rpt: plain => {
      const { compact, template } = embedded()
      return { ...plain, contract: s256(compact), family: template.family }
    },
    receipt: plain => {
      const { compact, template, jkt } = embedded()
      return {
        ...plain,
        agreement: s256(compact),
        agreement_jws: compact,
        family: template.family,
        cnf: { jkt },
      }
    },
  }
}

it('A refusal that ends a grant is told even if the grant cannot be given up', async () => {
  const dropGrant = () => Promise.reject(new Error('EROFS'))
  const refusal = { error: 'access_revoked', error_description: 'No more.' }
  peers.tools.script('/mcp/alice', ({ headers }) =>
    headers.authorization === undefined ? undefined : { status: 403, body: refusal },
  )
  await expect(call({ store: { ...memoryStore(), dropGrant } })).rejects.toMatchObject({
    code: 'access_revoked',
    detail: 'No more.',
  })
  expect(peers.tools.to('/mcp/alice')).toHaveLength(2)
})
