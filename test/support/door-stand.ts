/** Owns a membership for tests, with a door in front of the organization that answers in its place. */
import { freePorts } from '../../src/dev/stack/ports.ts'
import { startMembershipStand, type MembershipStand } from './membership.ts'
import { startOrganizationDoor, type OrganizationDoor } from './organization-door.ts'

export type DoorStand = MembershipStand & { door: OrganizationDoor }

/** Starts the organization behind the door, and the authority of its members; nobody has joined yet. */
export async function startDoorStand(
  options: Omit<NonNullable<Parameters<typeof startMembershipStand>[0]>, 'listen'> = {},
): Promise<DoorStand> {
  const [port] = await freePorts(1)
  const stand = await startMembershipStand({ ...options, listen: `127.0.0.1:${port}` })
  const door = await startOrganizationDoor(
    Number(new URL(stand.issuer).port),
    () => `http://127.0.0.1:${port}`,
  )
  const close = async (): Promise<void> => {
    door.close()
    await stand.close()
  }
  return { ...stand, door, close }
}
