/** The things that each subcommand of `usher admin` works with. Contract: "The organization's authority". */
import type { ClientAction, ClientSession } from '../client/session.ts'
import type { AdminClient } from './client.ts'

export { tell } from '../client/session.ts'
export type AdminSession = ClientSession<AdminClient>
export type AdminAction = ClientAction<AdminClient>
