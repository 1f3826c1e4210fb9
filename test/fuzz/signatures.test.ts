/**
 * Fuzzes the ext_authz door with RFC 9421 fields that are for something else, or for nothing. contract,
 * "Authorized call", "Errors".
 */
import { afterAll } from 'vitest'
import { openDoor } from './door.ts'
import { fuzz } from './target.ts'
import { signatures } from './targets/signatures.ts'

const door = openDoor()
afterAll(() => door.close())

fuzz(signatures(door))
