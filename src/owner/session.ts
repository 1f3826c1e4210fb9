/** The things that each subcommand of `usher owner` works with. Contract: "Owner API". */
import type { ClientAction, ClientSession } from '../client/session.ts'
import type { OwnerClient } from './client.ts'

export { tell } from '../client/session.ts'
export type OwnerSession = ClientSession<OwnerClient>
export type OwnerAction = ClientAction<OwnerClient>
