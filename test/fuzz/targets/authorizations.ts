/**
 * Target: values of Authorization, one or several, as one line or more. A call may pass only if there is
 * exactly one credential, and it is a live grant after the scheme `PoP`.
 */
import * as fc from 'fast-check'
import { anyText } from '../any-text.ts'
import { hold, outcomeOf, type FuzzDoor } from '../door.ts'
import type { GrantName } from '../known-grants.ts'
import { checkBytes } from '../../support/check-client.ts'
import { headersOf, type SentCall } from '../signed-call.ts'
import type { FuzzTarget } from '../target.ts'

interface AuthorizationInput {
  /** Lines of the field; `{name}` stands for that grant. */
  lines: string[]
  /** Lines apart, as Envoy sends them raw, or joined by a comma, as it sends them otherwise. */
  apart: boolean
  /** What is signed is what arrives, all lines joined; else the first line, to which a proxy then adds. */
  signsAll: boolean
  name: string
}

const BODY = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"portfolio_read"}}'

const schemes = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom('PoP', 'pop', 'POP') },
  {
    weight: 3,
    arbitrary: fc.constantFrom(
      'Bearer',
      'Basic',
      'PoP2',
      'DPoP',
      'P\u006fP',
      'Po P',
      '',
      'PoP:',
      '"PoP"',
      'PoP PoP',
    ),
  },
  { weight: 1, arbitrary: anyText(6) },
)
const gaps = fc.oneof(
  { weight: 8, arbitrary: fc.constant(' ') },
  { weight: 1, arbitrary: fc.constantFrom('', '  ', '\t', '\u00a0', '\r\n ', '=', ',', ' , ', '\v', ';') },
)
const tokens = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.constantFrom('{standing}', '{standing}', '{revoked}', '{foreign}', '{unknown}', '{spent}'),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      '{standing}=',
      '"{standing}"',
      '{standing},x',
      '{standing} x',
      'x {standing}',
      '{standing}\0',
      'token={standing}',
      '{standing}{standing}',
      '',
      'a'.repeat(9_000),
    ),
  },
  { weight: 1, arbitrary: anyText(30) },
)
const values = fc
  .tuple(
    fc.constantFrom('', '', '', '', ' ', '\t', ',', 'x, '),
    schemes,
    gaps,
    tokens,
    fc.constantFrom('', '', '', '', ' ', ',', ', x', '\n'),
  )
  .map(parts => parts.join(''))

const inputs: fc.Arbitrary<AuthorizationInput> = fc.record({
  lines: fc.oneof(
    { weight: 4, arbitrary: values.map(value => [value]) },
    { weight: 1, arbitrary: fc.array(values, { maxLength: 3 }) },
  ),
  apart: fc.boolean(),
  signsAll: fc.boolean(),
  name: fc.constantFrom(
    'authorization',
    'authorization',
    'Authorization',
    'AUTHORIZATION',
    'proxy-authorization',
  ),
})

/** The target over a door. */
export function authorizations(door: FuzzDoor): FuzzTarget<AuthorizationInput> {
  const { grants } = door
  const check = async ({ lines, apart, signsAll, name }: AuthorizationInput): Promise<string> => {
    grants.renew()
    const sent = lines.map(line =>
      line.replace(/\{(\w+)\}/g, (whole, grant: string) => grants.tokens[grant as GrantName] ?? whole),
    )
    const signed = signsAll ? sent.map(line => line.trim()).join(', ') : sent[0]
    const call: SentCall = {
      body: BODY,
      grant: 'none',
      authorization: signed ?? '',
      signing: {},
      raw: apart,
    }
    const { authorization: _signed, ...others } = headersOf(call, grants)
    const fields = Object.entries(others)
    const all: [string, string][] = apart
      ? [...fields, ...sent.map((line): [string, string] => [name, line])]
      : [...fields, ...(sent.length === 0 ? [] : [[name, sent.join(',')] as [string, string]])]
    const bytes = apart
      ? checkBytes({
          header_map: { headers: all.map(([key, value]) => ({ key, raw_value: Buffer.from(value) })) },
          raw_body: Buffer.from(BODY),
        })
      : checkBytes({ headers: Object.fromEntries(all), body: BODY })
    const answer = await door.ask(bytes)
    if (answer.ok_response) {
      hold(name.toLowerCase() === 'authorization', 'the credential stands in Authorization', name)
      hold(sent.length === 1, 'there is one line', sent)
      const token = /^[ \t]*pop[ \t]+([^\s,]+)[ \t]*$/i.exec(sent[0]!)?.[1]
      hold(token === grants.tokens.standing, 'it is one live grant after PoP', sent)
    }
    return outcomeOf(answer)
  }
  return { name: 'authorizations', inputs, check, shares: { allow: 0.02, '400': 0.05, '401': 0.05 } }
}
