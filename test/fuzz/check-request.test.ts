/** Fuzzes the ext_authz door with CheckRequests, whole and damaged. contract, "Authorized call", "Errors". */
import { afterAll } from 'vitest'
import { openDoor } from './door.ts'
import { fuzz } from './target.ts'
import { checkRequests } from './targets/check-request.ts'

const door = openDoor()
afterAll(() => door.close())

fuzz(checkRequests(door))
