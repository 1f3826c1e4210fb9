/**
 * Owns which browsers may call. MCP 2026-07-28, Streamable HTTP (Origin), and docs/choices.md: the same rule
 * for plain APIs. Contract: "Authorized call".
 */
import { refuse } from '../../wire/refusal.ts'
import type { Call } from '../call.ts'
import { singleLine } from './header-lines.ts'

/** Refuses 403 `invalid_origin` for an Origin that is not allowed. A call without an Origin passes. */
export function refuseBadOrigin(call: Pick<Call, 'headers'>, allowedOrigins: ReadonlySet<string>): void {
  const origin = singleLine(call.headers, 'origin')
  if (origin !== undefined && !allowedOrigins.has(origin)) {
    refuse(
      'invalid_origin',
      'Call from an origin that the resource server allows, or without an Origin header.',
    )
  }
}
