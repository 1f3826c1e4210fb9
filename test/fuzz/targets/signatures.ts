/**
 * Target: the fields of RFC 9421, made for other requests, tampered with, multiplied and garbled. A call may
 * pass only if the agent signed this method, authority, path, query and credential within the last minute.
 */
import * as fc from 'fast-check'
import { anyText } from '../any-text.ts'
import { hold, outcomeOf, type FuzzDoor } from '../door.ts'
import type { GrantName } from '../known-grants.ts'
import { checkOf, headersOf, type SentCall, type SigningFacts } from '../signed-call.ts'
import type { FuzzTarget } from '../target.ts'

interface Edit {
  field: 'signature' | 'signature-input'
  at: number
  remove: number
  insert: string
}

interface SignatureInput {
  method: string
  query?: string
  signing: SigningFacts
  digest: boolean
  /** The grant that is sent in place of the one that was signed. */
  sent?: GrantName
  edits: Edit[]
  /** Another signature beside it, by whom. */
  second?: SigningFacts
  secondFirst: boolean
  raw: boolean
}

const BODY = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"portfolio_read"}}'
const REQUIRED = ['@method', '@authority', '@path', 'authorization']
/** The scheme's default port counts as left out (RFC 9421 §2.2.3). */
const SAME_AUTHORITY = new Set(['tools.example.com', 'tools.example.com:443'])

const fragments = fc.oneof(
  fc.constantFrom(
    '"',
    ';',
    '=',
    ',',
    ':',
    '(',
    ')',
    '()',
    ' ',
    ';created=1',
    ';created=99999999999999',
    ';expires=1',
    ';alg="rsa-v1_5-sha256"',
    ';alg="ed25519"',
    ';keyid="x"',
    ';nonce="x"',
    ';req',
    ';sf',
    ';bs',
    ';key="a"',
    ' "@method"',
    ' "@query"',
    ' "@query-param";name="a"',
    ' "@target-uri"',
    ' "@request-target"',
    ' "@status"',
    ' "host"',
    ' "content-digest"',
    ' "signature"',
    'sig1=',
    'sig2=:AAAA:',
    ',sig2=()',
    '?0',
    '\\',
    '%00',
    '\u00e9',
    '::',
    'AAAA',
  ),
  anyText(8),
)

const edits: fc.Arbitrary<Edit> = fc.record({
  field: fc.constantFrom('signature', 'signature-input'),
  at: fc.nat(300),
  remove: fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(12) }),
  insert: fc.oneof({ weight: 3, arbitrary: fragments }, { weight: 1, arbitrary: fc.constant('') }),
})

/** Usual signing, with one or two things otherwise here and there. */
const signing: fc.Arbitrary<SigningFacts> = fc
  .tuple(
    fc.oneof(
      { weight: 3, arbitrary: fc.constant({}) },
      {
        weight: 2,
        arbitrary: fc.record(
          {
            method: fc.constantFrom('POST', 'GET', 'post'),
            path: fc.constantFrom('/mcp/alice', '/mcp/bea', '/mcp/alice/'),
            query: fc.constantFrom('', 'a=b', 'a=c'),
            authority: fc.constantFrom('tools.example.com', 'tools.example.com:443', 'evil.example'),
            created: fc.integer({ min: -75, max: 75 }),
            expires: fc.integer({ min: -90, max: 90 }),
            label: fc.constantFrom('sig1', 'a', 'x-1', '*b'),
            keyid: fc.constantFrom<string | false>(false, 'x', ''),
            nonce: fc.constantFrom('n', ''),
            tag: fc.constantFrom('t'),
            components: fc.subarray([...REQUIRED, '@query', '@scheme', 'content-type', '@target-uri']),
            byStranger: fc.constant(true),
            digestOf: fc.constantFrom(BODY, 'another body'),
          },
          { requiredKeys: [] },
        ),
      },
    ),
    fc.boolean(),
  )
  .map(([facts, whole]) => (whole ? keepOne(facts) : facts))

/** One thing at a time gets further. */
function keepOne(facts: SigningFacts): SigningFacts {
  const [first] = Object.entries(facts)
  return first === undefined ? {} : { [first[0]]: first[1] }
}

const inputs: fc.Arbitrary<SignatureInput> = fc.record(
  {
    method: fc.oneof(
      { weight: 9, arbitrary: fc.constant('POST') },
      { weight: 1, arbitrary: fc.constant('PUT') },
    ),
    query: fc.constantFrom('a=b', ''),
    signing,
    digest: fc.boolean(),
    sent: fc.constantFrom<GrantName>('standing', 'foreign', 'revoked'),
    edits: fc.oneof(
      { weight: 1, arbitrary: fc.constant<Edit[]>([]) },
      { weight: 1, arbitrary: fc.array(edits, { minLength: 1, maxLength: 3 }) },
    ),
    second: signing,
    secondFirst: fc.boolean(),
    raw: fc.boolean(),
  },
  { requiredKeys: ['method', 'signing', 'digest', 'edits', 'secondFirst', 'raw'] },
)

const edited = (text: string, field: Edit['field'], all: Edit[]): string =>
  all
    .filter(edit => edit.field === field)
    .reduce((current, { at, remove, insert }) => {
      const place = current.length === 0 ? 0 : at % current.length
      return current.slice(0, place) + insert + current.slice(place + remove)
    }, text)

/** The target over a door. */
export function signatures(door: FuzzDoor): FuzzTarget<SignatureInput> {
  const { grants } = door
  const check = async (input: SignatureInput): Promise<string> => {
    grants.renew()
    const { method, query, digest, raw, sent } = input
    const call: SentCall = {
      method,
      body: BODY,
      grant: 'standing',
      signing: input.signing,
      digest,
      raw,
      ...(query === undefined ? {} : { query }),
    }
    const headers = headersOf(call, grants)
    if (input.second !== undefined) {
      const second = headersOf({ ...call, signing: { label: 'sig2', ...input.second } }, grants)
      for (const field of ['signature', 'signature-input']) {
        const both = [headers[field], second[field]].filter(value => value !== undefined)
        headers[field] = (input.secondFirst ? both.toReversed() : both).join(', ')
      }
    }
    for (const field of ['signature', 'signature-input'] as const)
      if (headers[field] !== undefined) headers[field] = edited(headers[field], field, input.edits)
    if (sent !== undefined) headers['authorization'] = `PoP ${grants.tokens[sent]}`
    const answer = await door.ask(checkOf(call, headers))
    if (answer.ok_response) {
      const candidates = [input.signing, input.second].filter(facts => facts !== undefined)
      hold(
        candidates.some(facts => covers(facts, input)),
        'the agent signed what was sent',
        input,
      )
      hold(sent === undefined || sent === 'standing', 'the credential is the one that was signed', input)
    }
    return outcomeOf(answer)
  }
  return { name: 'signatures', inputs, check, shares: { allow: 0.03, '401': 0.2 } }
}

/** Whether a signature made from these facts is one over the request as sent, by the agent, in time. */
function covers(facts: SigningFacts, { method, query, digest }: SignatureInput): boolean {
  const { components, created = 0, expires, digestOf } = facts
  const needed = [...REQUIRED, ...(query === undefined ? [] : ['@query'])]
  const inTime = Math.abs(created) <= 62 && (expires === undefined || expires >= -2)
  const digestHolds = !digest || components !== undefined || digestOf === undefined || digestOf === BODY
  return (
    facts.byStranger !== true &&
    (facts.method ?? method) === method &&
    method === 'POST' &&
    (facts.path ?? '/mcp/alice') === '/mcp/alice' &&
    SAME_AUTHORITY.has(facts.authority ?? 'tools.example.com') &&
    // An empty query and none are the same to @query (RFC 9421 §2.2.7).
    (facts.query ?? query ?? '') === (query ?? '') &&
    (components === undefined || needed.every(name => components.includes(name))) &&
    inTime &&
    digestHolds
  )
}
