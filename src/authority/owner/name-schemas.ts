/**
 * How a name in an answer is described: as text, and to the compiler as the name that the record has there.
 * What is read is parsed instead (`asFamily` and the like), which a description of an answer could not say.
 * Contract: "Owner API".
 */
import { z } from 'zod'
import type { ClientId, Family, Handle } from '../../wire/identifiers.ts'

const text: z.ZodType<string> = z.string()

export const FAMILY = text as z.ZodType<Family>
export const HANDLE = text as z.ZodType<Handle>
export const CLIENT_ID = text as z.ZodType<ClientId>
