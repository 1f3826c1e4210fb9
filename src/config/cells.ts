/**
 * Owns the setting that divides owners between several Postgres clusters. Contract: "What the service does"
 * (many owners at one authority).
 */
import { z } from 'zod'
import { HOME_CELL, NAME_PATTERN } from '../wire/names.ts'
import { postgresUrl } from './postgres-url.ts'
import { optional, type Kind } from './settings.ts'

/** A cluster besides that of DATABASE_URL. */
export interface ConfiguredCell {
  name: string
  url: string
}

const FORM = 'Give name=postgres://user:password@host:port/database for each, separated by blanks.'

/** No fault repeats a URL: it holds a password. */
const cellList: Kind<ConfiguredCell[]> = {
  type: 'list of name=`postgres://` URL',
  schema: z.string().transform((text, context) => {
    const refuse = (message: string) => {
      context.addIssue({ code: 'custom', message })
      return z.NEVER
    }
    const cells = text
      .trim()
      .split(/\s+/)
      .map(one => ({ name: one.split('=', 1)[0]!, url: one.slice(one.indexOf('=') + 1) }))
    for (const { name, url } of cells) {
      if (!NAME_PATTERN.test(name) || name === url) return refuse(FORM)
      if (name === HOME_CELL)
        return refuse(`Call the cell ${HOME_CELL} otherwise: DATABASE_URL is called so.`)
      const read = postgresUrl.schema.safeParse(url)
      if (!read.success) return refuse(`${name}: ${read.error.issues[0]!.message}`)
    }
    if (new Set(cells.map(({ name }) => name)).size < cells.length) return refuse('Name each cell once.')
    if (new Set(cells.map(({ url }) => url)).size < cells.length)
      return refuse('Give each cell a database of its own.')
    return cells
  }),
  json: { type: 'string', pattern: '=postgres(ql)?://' },
}

export const cells = optional('UMA_AS_CELLS', cellList, {
  description:
    'Further Postgres clusters between which owners are divided, as `name=postgres://…`, separated by blanks; the same for all replicas and commands. DATABASE_URL is the cell `home`, which says where each owner is and in which new ones are made. One cluster when left out.',
})

/** Whether they are consistent with the other settings. */
export function cellFaults(values: {
  cells: ConfiguredCell[] | undefined
  databaseUrl: string
  adminListen?: unknown
  identityIssuers?: unknown
  tallies?: unknown
}): string[] {
  if (values.cells === undefined) return []
  return [
    ...values.cells
      .filter(({ url }) => url === values.databaseUrl)
      .map(({ name }) => `UMA_AS_CELLS: give the cell ${name} another database than DATABASE_URL names.`),
    ...(values.adminListen === undefined
      ? []
      : ['UMA_AS_CELLS: take UMA_AS_ADMIN_LISTEN out and administer owners by `usher authority owner`.']),
    ...(values.identityIssuers === undefined
      ? []
      : [
          'UMA_AS_CELLS: take UMA_AS_IDENTITY_ISSUERS out: one assertion could be presented once in each cell.',
        ]),
    ...(values.tallies === undefined
      ? []
      : [
          'UMA_AS_CELLS: take UMA_AS_TALLIES out: an account could have the name of an owner in another cell.',
        ]),
  ]
}
