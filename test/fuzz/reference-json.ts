/**
 * Owns a second JSON reader, by the grammar of RFC 8259 and nothing else: it keeps what others drop (repeated
 * names, the text of numbers), so that it can say whether all readers would read the same. Shares no code
 * with the product's.
 */
import { hashArguments } from './reading.ts'

export type Node =
  | { kind: 'object'; members: [name: string, value: Node][] }
  | { kind: 'array'; items: Node[] }
  | { kind: 'string'; value: string }
  | { kind: 'number'; text: string }
  | { kind: 'literal'; value: boolean | null }

/** The one document in the text. Throws a SyntaxError. */
export function parse(text: string): Node {
  let at = 0
  const fail = (): never => {
    throw new SyntaxError(`not JSON at ${at}`)
  }
  const space = (): void => {
    while (at < text.length && ' \t\n\r'.includes(text[at]!)) at++
  }
  const take = (pattern: RegExp): string => {
    pattern.lastIndex = at
    const found = pattern.exec(text)?.[0] ?? fail()
    at += found.length
    return found
  }
  const string = (): string => {
    // oxlint-disable-next-line eslint/no-control-regex -- control characters are what the grammar leaves out
    const raw = take(/"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y)
    return JSON.parse(raw) as string
  }
  const list = <T>(close: string, item: () => T): T[] => {
    const items: T[] = []
    at++
    space()
    if (text[at] === close) {
      at++
      return items
    }
    for (;;) {
      space()
      items.push(item())
      space()
      if (text[at] === close) {
        at++
        return items
      }
      if (text[at++] !== ',') fail()
    }
  }
  const value = (): Node => {
    switch (text[at]) {
      case '{':
        return {
          kind: 'object',
          members: list('}', (): [string, Node] => {
            const name = string()
            space()
            if (text[at++] !== ':') fail()
            space()
            return [name, value()]
          }),
        }
      case '[':
        return { kind: 'array', items: list(']', value) }
      case '"':
        return { kind: 'string', value: string() }
      default: {
        const word = /(?:true|false|null)/y
        word.lastIndex = at
        const literal = word.exec(text)?.[0]
        if (literal === undefined)
          return { kind: 'number', text: take(/-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y) }
        at += literal.length
        return { kind: 'literal', value: literal === 'null' ? null : literal === 'true' }
      }
    }
  }
  space()
  const found = value()
  space()
  if (at < text.length) fail()
  return found
}

/** The parts of a tree, itself first. */
export function* parts(node: Node): Generator<Node> {
  yield node
  const inner =
    node.kind === 'object' ? node.members.map(([, value]) => value) : node.kind === 'array' ? node.items : []
  for (const one of inner) yield* parts(one)
}

export function depth(node: Node): number {
  if (node.kind !== 'object' && node.kind !== 'array') return 0
  const inner = node.kind === 'object' ? node.members.map(([, value]) => value) : node.items
  return 1 + Math.max(0, ...inner.map(depth))
}

/** Whether every reader finds one value per name, whole characters and finite numbers. */
export function isPlain(root: Node): boolean {
  if (depth(root) > 64) return false
  for (const node of parts(root)) {
    if (node.kind === 'number' && !Number.isFinite(Number(node.text))) return false
    if (node.kind === 'string' && !node.value.isWellFormed()) return false
    if (node.kind !== 'object') continue
    const names = node.members.map(([name]) => name)
    if (new Set(names).size < names.length || !names.every(name => name.isWellFormed())) return false
  }
  return true
}

/** Whether each number is exactly the decimal that its double prints as. */
export function isExact(root: Node): boolean {
  for (const node of parts(root)) if (node.kind === 'number' && !sameDecimal(node.text)) return false
  return true
}

function sameDecimal(text: string): boolean {
  const double = Number(text)
  if (!Number.isFinite(double)) return false
  const [one, other] = [rational(text), rational(String(double))]
  const least = Math.min(one.power, other.power)
  const scaled = ({ digits, power }: { digits: bigint; power: number }) =>
    digits * 10n ** BigInt(power - least)
  if (one.digits === 0n || other.digits === 0n) return one.digits === other.digits
  return scaled(one) === scaled(other)
}

function rational(text: string): { digits: bigint; power: number } {
  const [mantissa, exponent = '0'] = text.toLowerCase().split('e') as [string, string?]
  const [whole, fraction = ''] = mantissa.split('.') as [string, string?]
  return { digits: BigInt(whole + fraction), power: Number(exponent) - fraction.length }
}

/**
 * How servers differ in what they take from a document: the last of two names, the first, or one whatever its
 * case.
 */
export type Reader = 'last' | 'first' | 'folding'

/** The value as such a server has it. Numbers are doubles. */
export function readAs(reader: Reader, node: Node): unknown {
  switch (node.kind) {
    case 'object': {
      const found = new Map<string, unknown>()
      for (const [name, value] of node.members) {
        const key = reader === 'folding' ? name.toLowerCase() : name
        if (reader !== 'first' || !found.has(key)) found.set(key, readAs(reader, value))
      }
      return Object.fromEntries(found)
    }
    case 'array':
      return node.items.map(item => readAs(reader, item))
    case 'number':
      return Number(node.text)
    default:
      return node.value
  }
}

/** `params_s256` of what such a server would execute; undefined if it would execute nothing. */
export function argumentsAs(
  reader: Reader,
  node: Node,
): { tool: unknown; args: unknown; hash: string } | undefined {
  const message = readAs(reader, node) as { params?: { name?: unknown; arguments?: unknown } } | null
  const { name, arguments: args = {} } = message?.params ?? {}
  if (typeof args !== 'object' || args === null || Array.isArray(args)) return undefined
  return { tool: name, args, hash: hashArguments(args) }
}
