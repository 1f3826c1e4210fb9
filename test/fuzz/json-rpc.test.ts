/**
 * Fuzzes the ext_authz door with bodies that two readers could take differently. contract, "Authorized call",
 * "Errors".
 */
import { afterAll } from 'vitest'
import { openDoor } from './door.ts'
import { fuzz } from './target.ts'
import { jsonRpcBodies } from './targets/json-rpc.ts'

const door = openDoor()
afterAll(() => door.close())

fuzz(jsonRpcBodies(door))
