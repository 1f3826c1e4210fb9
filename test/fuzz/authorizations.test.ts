/** Fuzzes the ext_authz door with values of Authorization. contract, "Authorized call", "Errors". */
import { afterAll } from 'vitest'
import { openDoor } from './door.ts'
import { fuzz } from './target.ts'
import { authorizations } from './targets/authorizations.ts'

const door = openDoor()
afterAll(() => door.close())

fuzz(authorizations(door))
