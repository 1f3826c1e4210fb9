/**
 * The curve of Ed25519, for signatures that no library makes: with points of small order added, or scalars
 * and points spelt otherwise. Slow, and never for anything secret. RFC 8032 §5.1.
 */
import { createHash } from 'node:crypto'

export type Point = readonly [x: bigint, y: bigint]

export const P = 2n ** 255n - 19n
export const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n
export const IDENTITY: Point = [0n, 1n]

const mod = (a: bigint, m = P): bigint => ((a % m) + m) % m
function power(base: bigint, exponent: bigint): bigint {
  let result = 1n
  for (let b = mod(base), e = exponent; e > 0n; b = (b * b) % P, e >>= 1n)
    if (e & 1n) result = (result * b) % P
  return result
}
const inverse = (a: bigint): bigint => power(a, P - 2n)
const D = mod(-121665n * inverse(121666n))

export function add([x1, y1]: Point, [x2, y2]: Point): Point {
  const k = (((((D * x1) % P) * x2) % P) * ((y1 * y2) % P)) % P
  return [mod((x1 * y2 + x2 * y1) * inverse(1n + k)), mod((y1 * y2 + x1 * x2) * inverse(mod(1n - k)))]
}

export function multiply(point: Point, by: bigint): Point {
  let result = IDENTITY
  for (let p = point, n = by; n > 0n; p = add(p, p), n >>= 1n) if (n & 1n) result = add(result, p)
  return result
}

/** The point with that y whose x is even. */
function pointAt(y: bigint): Point {
  const square = mod((y * y - 1n) * inverse(mod(D * y * y + 1n)))
  let x = power(square, (P + 3n) / 8n)
  if (mod(x * x - square) !== 0n) x = mod(x * power(2n, (P - 1n) / 4n))
  return [x & 1n ? P - x : x, y]
}

export const BASE = pointAt(mod(4n * inverse(5n)))
/** Of order 8: its multiples are all points of small order. */
export const SMALL = pointAt(0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7n)

export function littleEndian(n: bigint): Buffer {
  return Buffer.from(n.toString(16).padStart(64, '0'), 'hex').reverse()
}

export function encode([x, y]: Point): Buffer {
  const bytes = littleEndian(y)
  if (x & 1n) bytes[31]! |= 0x80
  return bytes
}

/** A signature with that R, over which the signer's scalar and nonce fit but for what has small order. */
export function signature(
  message: Buffer,
  { r, R, a, A }: { r: bigint; R: Buffer; a: bigint; A: Point },
): { bytes: Buffer; h: bigint; s: bigint } {
  const digest = createHash('sha512').update(R).update(encode(A)).update(message).digest()
  const h = mod(BigInt(`0x${digest.reverse().toString('hex')}`), ORDER)
  const s = mod(r + h * a, ORDER)
  return { bytes: Buffer.concat([R, littleEndian(s)]), h, s }
}
