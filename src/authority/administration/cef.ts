/**
 * Owns how a security event is written in the Common Event Format (ArcSight CEF, version 0), which security
 * systems read. Contract: "Events".
 */

/** A security event of an owner; ids, and nothing that an agent wrote. */
export interface AuditEvent {
  /** The same for the same event, however often it is read. */
  id: string
  /** ISO 8601. */
  at: string
  event: string
  owner: string
  seq?: number
  handle?: string
  family?: string
  jti?: string
  /** How many equal refusals of one minute it stands for, if more than one. */
  count?: number
}

const ORDINARY_SEVERITY = 3
/** From 0 to 10. */
const SEVERITY: Readonly<Record<string, number>> = {
  denied: 4,
  refused: 4,
  joint_refused: 4,
  withdrawn: 4,
  revoked: 5,
  blocked: 5,
  policy_changed: 5,
  policy_removed: 5,
  allowance_changed: 5,
  server_withdrawn: 5,
  origin_banned: 5,
  identity_refused: 6,
  credential_added: 6,
  credential_removed: 6,
  subscription_added: 6,
  suspended: 7,
  removed: 7,
  break_glass: 8,
  recovery_started: 8,
  restored: 9,
}

/** One line, without its end. */
export function cefLine(event: AuditEvent, version: string): string {
  const { event: kind } = event
  const severity = SEVERITY[kind] ?? ORDINARY_SEVERITY
  const head = ['usher', 'usher authority', version, kind, kind.replaceAll('_', ' '), String(severity)]
  return `CEF:0|${head.map(inHead).join('|')}|${extensionOf(event)}`
}

function extensionOf({ id, at, owner, seq, handle, family, jti, count }: AuditEvent): string {
  const members: [key: string, value: string | number | undefined][] = [
    ['rt', Date.parse(at)],
    ['externalId', id],
    ['duser', owner],
    ['suser', handle],
    ['cnt', count],
    ...labelled('cn1', 'seq', seq),
    ...labelled('cs1', 'family', family),
    ...labelled('cs2', 'jti', jti),
  ]
  return members
    .flatMap(([key, value]) => (value === undefined ? [] : [`${key}=${inExtension(String(value))}`]))
    .join(' ')
}

/** A member of the format's own set says by another one what it is. */
function labelled(
  key: string,
  label: string,
  value: string | number | undefined,
): [string, string | number | undefined][] {
  return [
    [`${key}Label`, value === undefined ? undefined : label],
    [key, value],
  ]
}

/** In the head, `\` and `|` are escaped, and there is no end of line. */
function inHead(text: string): string {
  return text.replace(/[\\|]/g, mark => `\\${mark}`).replace(/\p{Cc}/gu, ' ')
}

const ENDS_OF_LINE: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r' }

/** In the extension, `\` and `=` are escaped, and an end of line is written as `\n` or `\r`. */
function inExtension(text: string): string {
  return text.replace(/[\\=]/g, mark => `\\${mark}`).replace(/\p{Cc}/gu, mark => ENDS_OF_LINE[mark] ?? ' ')
}
