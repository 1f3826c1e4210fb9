/**
 * Fuzzes the HTTP door with what gateways send to `/check`, whole and damaged. contract, "Authorized call",
 * "Errors".
 */
import { afterAll } from 'vitest'
import { openHttpDoor } from './http-door.ts'
import { fuzz } from './target.ts'
import { httpChecks } from './targets/http-check.ts'

const door = await openHttpDoor()
afterAll(() => door.close())

fuzz(httpChecks(door))
