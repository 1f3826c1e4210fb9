/**
 * Owns the form of a Postgres address. Contract: "Limits".
 */
import { z } from 'zod'
import type { Kind } from './settings.ts'

const SCHEME = /^postgres(?:ql)?:\/\//i
const PORT_MAX = 65_535
/** Unencoded characters in a password would cut the URL at the wrong place. */
const ENCODE = 'If the user or the password contains one of : / ? # @ it must be percent-encoded.'
const FORM = `Give postgres://user:password@host:port/database. ${ENCODE}`

/** A `postgres://` URL with one host. No fault message repeats it, because it contains a password. */
export const postgresUrl: Kind<string> = {
  type: '`postgres://` URL',
  schema: z.string().superRefine((text, context) => {
    const message = postgresUrlFault(text)
    if (message !== undefined) context.addIssue({ code: 'custom', message })
  }),
  json: { type: 'string', pattern: '^postgres(ql)?://' },
}

function postgresUrlFault(text: string): string | undefined {
  if (!SCHEME.test(text)) {
    const scheme = /^([a-z][a-z\d+.-]*):\/\//i.exec(text)?.[1]
    return scheme === undefined ? FORM : `The scheme must be postgres, and is ${scheme}. ${FORM}`
  }
  const [authority = ''] = text.replace(SCHEME, '').split(/[/?#]/, 1)
  const host = authority.slice(authority.lastIndexOf('@') + 1)
  if (host.includes(',')) return 'Name one host: if there are several, one address must lead to the primary.'
  const port = /:([^:\]]*)$/.exec(host)?.[1]
  // A socket's URL names no host beside its user.
  const url = URL.parse(text.replace('@/', '@localhost/'))
  for (const value of [port, url?.searchParams.get('port')]) {
    if (value !== undefined && value !== null && value !== '' && !isPort(value))
      return `The port must be a whole number from 1 to ${PORT_MAX}. ${ENCODE}`
  }
  return url === null ? FORM : undefined
}

function isPort(text: string): boolean {
  return /^\d{1,5}$/.test(text) && Number(text) >= 1 && Number(text) <= PORT_MAX
}
