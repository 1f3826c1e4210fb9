/**
 * Target: bodies of MCP calls with a grant for one exact operation. Some server's reading of the body is what
 * the owner approved; the call may pass only if no other server reads anything else, and it must pass if all
 * read the same.
 */
import * as fc from 'fast-check'
import type { Json } from '../../../src/wire/json.ts'
import { anyText } from '../any-text.ts'
import { hold, outcomeOf, type FuzzDoor } from '../door.ts'
import { isFree } from '../reading.ts'
import { argumentsAs, isExact, isPlain, parse, readAs, type Node, type Reader } from '../reference-json.ts'
import { checkOf, headersOf, type SentCall } from '../signed-call.ts'
import type { FuzzTarget } from '../target.ts'

interface BodyInput {
  /** Base64. */
  body: string
  /** Whose reading was approved. */
  reader: Reader
  raw: boolean
  digest: boolean
}

const quoted = (text: string): string => JSON.stringify(text)

/** One name in different spellings: as it is, escaped, in other cases (ſ and K fold to s and k for some). */
const spelt = (name: string): fc.Arbitrary<string> =>
  fc.oneof(
    { weight: 30, arbitrary: fc.constant(quoted(name)) },
    {
      weight: 2,
      arbitrary: fc.constant(`"\\u${name.charCodeAt(0).toString(16).padStart(4, '0')}${name.slice(1)}"`),
    },
    { weight: 1, arbitrary: fc.constant(quoted(name.toUpperCase())) },
    { weight: 1, arbitrary: fc.constant(quoted(name[0]!.toUpperCase() + name.slice(1))) },
    { weight: 1, arbitrary: fc.constant(quoted(name.replace('s', '\u017f'))) },
    { weight: 1, arbitrary: fc.constant(quoted(`${name} `)) },
  )

const numbers = fc.oneof(
  fc.constantFrom(
    '0',
    '-0',
    '1',
    '2.0',
    '2',
    '1e2',
    '9007199254740993',
    '9007199254740992',
    '1e400',
    '-1e-400',
    '0.1',
    '0.10000000000000000001',
    '1E+2',
    '100000000000000000000000',
    '1e23',
    '5e-324',
    '01',
    '1.',
    '.5',
    '+1',
    '0x10',
    'NaN',
    'Infinity',
  ),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map(String),
  fc.bigInt({ min: -(10n ** 22n), max: 10n ** 22n }).map(String),
)

const texts = fc.oneof(
  fc.constantFrom(
    '"VTI"',
    '"now!"',
    '"\u{FFFD}"',
    '"\\ud800"',
    '"\\ud83d\\ude00"',
    '"\u{1F600}"',
    '"\\u0041"',
    '"\\/"',
    '"/"',
    '"a\\u0000b"',
    '"\u0085\u2028"',
    '"\\x41"',
    "'single'",
    '"tab\tinside"',
    '"e\u0301"',
    '"\u00e9"',
  ),
  anyText(12).map(quoted),
)

const { value: anyValue } = fc.letrec<{ value: string }>(tie => ({
  value: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    texts,
    numbers,
    fc.constantFrom('true', 'null', 'undefined', 'nul'),
    fc.array(tie('value'), { maxLength: 3 }).map(items => `[${items.join(',')}]`),
    fc
      .array(fc.tuple(texts, tie('value')), { maxLength: 3 })
      .map(members => `{${members.map(([name, value]) => `${name}:${value}`).join(',')}}`),
  ),
}))

const PLAIN_ARGUMENTS = fc.constantFrom(
  '{"symbol":"VTI","qty":2}',
  '{}',
  '{"qty":2,"symbol":"VTI"}',
  '{"note":"caf\u00e9","deep":[{"a":[1,2,{"b":null}]}]}',
)
const argumentTexts = fc.oneof(
  { weight: 6, arbitrary: PLAIN_ARGUMENTS },
  {
    weight: 4,
    arbitrary: fc
      .array(fc.tuple(fc.oneof(spelt('symbol'), spelt('qty'), texts), anyValue), { maxLength: 4 })
      .map(members => `{${members.map(([name, value]) => `${name}:${value}`).join(',')}}`),
  },
  { weight: 1, arbitrary: anyValue },
)

const member = (name: string, value: fc.Arbitrary<string>) =>
  fc.tuple(spelt(name), value).map(([key, text]) => `${key}:${text}`)

/** The usual members, some left out or said twice, in any order. */
function objectOf(usual: fc.Arbitrary<string>[], strange: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc
    .tuple(
      fc.tuple(...usual),
      fc.oneof(
        { weight: 6, arbitrary: fc.constant([]) },
        { weight: 1, arbitrary: fc.array(fc.oneof(...usual, strange), { maxLength: 2 }) },
      ),
      fc.oneof(
        { weight: 12, arbitrary: fc.constant(-1) },
        { weight: 1, arbitrary: fc.nat(usual.length - 1) },
      ),
      fc.boolean(),
    )
    .map(([members, more, missing, turned]) => {
      const all = [...members.filter((_, at) => at !== missing), ...more]
      return `{${(turned ? all.toReversed() : all).join(',')}}`
    })
}

const params = objectOf(
  [member('name', fc.constant('"place_trade"')), member('arguments', argumentTexts)],
  fc.oneof(member('name', texts), member('_meta', anyValue)),
)
const messages = objectOf(
  [
    member('jsonrpc', fc.constant('"2.0"')),
    member(
      'id',
      fc.oneof({ weight: 6, arbitrary: fc.constantFrom('1', '"a"') }, { weight: 1, arbitrary: anyValue }),
    ),
    member(
      'method',
      fc.oneof({ weight: 15, arbitrary: fc.constant('"tools/call"') }, { weight: 1, arbitrary: texts }),
    ),
    member('params', fc.oneof({ weight: 15, arbitrary: params }, { weight: 1, arbitrary: anyValue })),
  ],
  fc.oneof(
    member('result', anyValue),
    fc.tuple(texts, anyValue).map(([name, value]) => `${name}:${value}`),
  ),
)

const rare = <T>(usual: T, ...others: T[]): fc.Arbitrary<T> =>
  fc.oneof(
    { weight: 12, arbitrary: fc.constant(usual) },
    { weight: 1, arbitrary: fc.constantFrom(...others) },
  )

const bodies: fc.Arbitrary<Buffer> = fc
  .tuple(
    messages,
    rare('', '\u{FEFF}', ' ', '\n\t', '/**/', '\u00a0', 'x'),
    rare('', ' ', '\n', '{}', 'null', '\0', ',', '//', '\u{FEFF}'),
    rare<BufferEncoding>('utf8', 'utf16le', 'latin1'),
    rare<[number, number][]>(
      [],
      [[7, 0xff]],
      [[30, 0x5c]],
      [[40, 0x22]],
      [
        [55, 0x00],
        [60, 0xc0],
      ],
    ),
  )
  .map(([message, before, after, encoding, damage]) => {
    const bytes = Buffer.from(before + message + after, encoding)
    for (const [at, byte] of damage) if (bytes.length > 0) bytes[at % bytes.length] = byte
    return bytes
  })

const inputs: fc.Arbitrary<BodyInput> = fc
  .tuple(bodies, fc.constantFrom<Reader>('last', 'first', 'folding'), fc.boolean(), fc.boolean())
  .map(([body, reader, raw, digest]) => ({ body: body.toString('base64'), reader, raw, digest }))

/** The target over a door. */
export function jsonRpcBodies(door: FuzzDoor): FuzzTarget<BodyInput> {
  const { grants } = door
  const check = async ({ body, reader, raw, digest }: BodyInput): Promise<string> => {
    const bytes = Buffer.from(body, 'base64')
    const shown = raw ? bytes : Buffer.from(bytes.toString('utf8'))
    const tree = treeOf(shown)
    const approved = tree && argumentsAs(reader, tree)
    grants.renew()
    if (approved !== undefined && approvable(approved.args)) grants.renew(approved.args)
    const call: SentCall = { body, bodyIsBase64: true, grant: 'single', raw, digest, signing: {} }
    const answer = await door.ask(checkOf(call, headersOf(call, grants)))
    const readable = tree !== undefined && isPlain(tree) && isExact(tree) && isCall(tree)
    // Text may have lost bytes where it shows `!`; only a digest of the bytes then proves it whole.
    const lossy = !raw && (shown.includes('!') || shown.includes('\u{FFFD}'))
    const whole = lossy ? digest && shown.equals(bytes) : true
    const due = readable && whole && approved?.tool === 'place_trade' && sameForAll(tree, approved.hash)
    const free = answer.ok_response !== undefined && grants.spent.length === 0
    if (free) hold(tree !== undefined && isFreeFor(tree), 'only a free method passes unspent', body)
    else
      hold((answer.ok_response !== undefined) === due, 'a call passes where all readers agree', {
        due,
        answer,
      })
    return outcomeOf(answer)
  }
  return { name: 'json-rpc', inputs, check, shares: { allow: 0.1, '200': 0.005, '400': 0.1, '403': 0.003 } }
}

function treeOf(bytes: Buffer): Node | undefined {
  try {
    return parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes))
  } catch {
    return undefined
  }
}

/** Whether an owner could have been asked about it: what has no canonical form cannot be approved. */
function approvable(args: unknown): args is Json {
  switch (typeof args) {
    case 'number':
      return Number.isFinite(args)
    case 'string':
      return args.isWellFormed()
    case 'object':
      return (
        args === null ||
        Object.entries(args).every(([name, value]) => name.isWellFormed() && approvable(value))
      )
    default:
      return true
  }
}

const DECIDING = new Set(['method', 'params', 'name', 'arguments'])

/** Whether it is one JSON-RPC request for a tool, with every deciding name in its one spelling. */
function isCall(tree: Node): boolean {
  const plainNames = (node: Node | undefined): boolean =>
    node?.kind === 'object' &&
    node.members.every(([name]) => DECIDING.has(name) || !DECIDING.has(name.toUpperCase().toLowerCase()))
  if (tree.kind !== 'object' || !plainNames(tree)) return false
  const member = (name: string) => tree.members.find(([known]) => known === name)?.[1]
  const [jsonrpc, id, method] = ['jsonrpc', 'id', 'method'].map(name => member(name))
  const idIsFine = id === undefined || id.kind === 'string' || id.kind === 'number'
  const answers = member('result') !== undefined || member('error') !== undefined
  return (
    jsonrpc?.kind === 'string' &&
    jsonrpc.value === '2.0' &&
    idIsFine &&
    !answers &&
    method?.kind === 'string' &&
    method.value === 'tools/call' &&
    plainNames(member('params'))
  )
}

/**
 * Whether servers that take the first and servers that take the last would both execute what was approved.
 */
function sameForAll(tree: Node, approved: string): boolean {
  return (['last', 'first'] as const).every(reader => argumentsAs(reader, tree)?.hash === approved)
}

function isFreeFor(tree: Node): boolean {
  const { method } = readAs('last', tree) as { method?: unknown }
  return method === undefined || (typeof method === 'string' && isFree(method))
}
