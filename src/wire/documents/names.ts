/**
 * How a name in an answer is described: as text, and to the compiler as the branded name that the record has.
 * Input is parsed instead (`asFamily` and others), which the description of an answer could not express.
 * Contract: "Owner API".
 */
import { z } from 'zod'
import type { ClientId, Family, Handle } from '../identifiers.ts'

const text: z.ZodType<string> = z.string()

export const FAMILY = text as z.ZodType<Family>
export const HANDLE = text as z.ZodType<Handle>
export const CLIENT_ID = text as z.ZodType<ClientId>
